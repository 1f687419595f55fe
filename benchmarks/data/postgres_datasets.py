"""The same databases on Postgres, each a schema."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from benchmarks.data.datasets import Dataset, generated
from benchmarks.data.sources import PostgresSource


def nearest(table: str, key: str, low: str, limit: int) -> str:
    """A condition for the first rows at or above `low` in the order of the key: an UPDATE has no ORDER BY and LIMIT
    here.
    """
    first = key.split(",", maxsplit=1)[0]
    return f"ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE {first} >= {low} ORDER BY {key} LIMIT {limit}))"


def employees(data: Path) -> Dataset[PostgresSource]:
    """130,783 rows, composite keys, dates; a trigger that writes a log."""

    def load(source: PostgresSource) -> None:
        source.run_script("employee", data / "employees" / "postgres" / "employee.sql")

    someone = "10000 + {r} % 10000"
    writes = (
        (f"UPDATE salary SET amount = amount + 1 WHERE {nearest('salary', 'emp_no, from_date', someone, 3)}",),
        ("INSERT INTO employee VALUES (1000000 + {n}, '1990-01-01', 'New', 'Näme', 'F', '2026-01-01')",
         "INSERT INTO title VALUES (1000000 + {n}, 'Engineer', '2026-01-01', NULL)"),
        (f"DELETE FROM title WHERE {nearest('title', 'emp_no, title, from_date', someone, 1)}",),
        (f"UPDATE title SET title = 'T{{n}}' WHERE {nearest('title', 'emp_no, title, from_date', someone, 1)}",),
        ("DELETE FROM employee WHERE emp_no = 10000 + {r} % 10000",),
    )  # fmt: skip
    return Dataset("employees", "employee", load, writes)


def chinook(data: Path) -> Dataset[PostgresSource]:
    """15,607 rows in 11 tables, foreign keys, unicode."""

    def load(source: PostgresSource) -> None:
        source.run_script("chinook", data / "chinook" / "Chinook_PostgreSql.sql")

    writes = (
        ("UPDATE track SET unit_price = unit_price + 0.01 WHERE track_id = 1 + {r} % 3503",),
        ("INSERT INTO playlist VALUES (1000 + {n}, 'ünïcode {n}')",
         "INSERT INTO playlist_track VALUES (1000 + {n}, 1 + {r} % 3503)"),
        ("DELETE FROM invoice_line WHERE invoice_line_id = 1 + {r} % 2240",),
        ("UPDATE playlist_track SET track_id = 1 + {r} % 3503 WHERE playlist_id = 1000 + {n} - 2",),
    )  # fmt: skip
    return Dataset("chinook", "chinook", load, writes)


TPCH_TABLES = """
CREATE SCHEMA tpch;
CREATE TABLE tpch.orders (
  o_orderkey bigint PRIMARY KEY, o_custkey bigint NOT NULL, o_orderstatus char(1) NOT NULL,
  o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL,
  o_clerk char(15) NOT NULL, o_shippriority int NOT NULL, o_comment varchar(79) NOT NULL);
CREATE TABLE tpch.lineitem (
  l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, l_linenumber int NOT NULL,
  l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL,
  l_discount numeric(15,2) NOT NULL, l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL,
  l_linestatus char(1) NOT NULL,
  l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL,
  l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber));
"""
NEW_LINEITEM = """INSERT INTO lineitem VALUES (100000000 + {n}, 1, 1, 1, 2, 3.5, 0, 0, 'N', 'O',
  '2026-01-01', '2026-01-01', '2026-01-01', 'NONE', 'AIR', 'new')"""


def tpch(scale: float, folder: Path) -> Dataset[PostgresSource]:
    """Orders and lineitem: 7.5 million rows at scale 1."""

    def load(source: PostgresSource) -> None:
        with closing(source.connect("tpch")) as connection, connection.cursor() as cursor:
            cursor.execute(TPCH_TABLES)
            connection.commit()
        for table, file in generated(scale, folder, "csv"):
            source.load_csv("tpch", table, file)

    here = f"1 + {{r}} * {max(1, int(6_000_000 * scale))}::bigint / 1000000"
    line = nearest("lineitem", "l_orderkey, l_linenumber", here, 2)
    writes = (
        (f"UPDATE orders SET o_comment = 'w{{n}}' WHERE {nearest('orders', 'o_orderkey', here, 2)}",),
        ("INSERT INTO orders VALUES (100000000 + {n}, 1, 'O', 1.5, '2026-01-01', '1-URGENT', 'me', 0, 'new')",
         NEW_LINEITEM),
        (f"DELETE FROM lineitem WHERE {line}",),
        (f"UPDATE orders SET o_orderkey = 200000000 + {{n}} WHERE {nearest('orders', 'o_orderkey', here, 1)}",),
    )  # fmt: skip
    return Dataset("tpch", "tpch", load, writes, "lineitem")
