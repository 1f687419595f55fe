"""Databases to copy, and what a concurrent writer does to each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from benchmarks.data.sources import MariaDBSource, Source

S = TypeVar("S", bound=Source)


@dataclass(frozen=True)
class Dataset(Generic[S]):
    """`writes`: transactions, lists of statements; {n} is a counter, {r} a random number below a million.

    On MariaDB no row is deleted that a foreign key points to: what a cascade deletes is not in the binary log.
    `largest`: the table that Debezium reads for comparison; empty where starting Spark is most of the load.
    """

    name: str
    database: str
    load: Callable[[S], None]
    writes: tuple[tuple[str, ...], ...]
    largest: str = ""


def employees(data: Path) -> Dataset[MariaDBSource]:
    """130,783 rows, composite keys, dates."""
    folder = data / "employees" / "mysql"

    def load(source: MariaDBSource) -> None:
        with (folder / "employee.sql").open("rb") as script:
            source.client(stdin=script, cwd=folder, stdout=subprocess.DEVNULL)

    writes = (
        ("UPDATE salary SET amount = amount + 1 WHERE emp_no > 10000 + {r} % 10000 ORDER BY emp_no LIMIT 3",),
        ("INSERT INTO employee VALUES (1000000 + {n}, '1990-01-01', 'New', 'Näme', 'F', '2026-01-01')",
         "INSERT INTO title VALUES (1000000 + {n}, 'Engineer', '2026-01-01', NULL)"),
        ("DELETE FROM title WHERE emp_no > 10000 + {r} % 10000 ORDER BY emp_no LIMIT 1",),
        ("UPDATE title SET title = 'T{n}' WHERE emp_no > 10000 + {r} % 10000 ORDER BY emp_no LIMIT 1",),
    )  # fmt: skip
    return Dataset("employees", "employee", load, writes)


def chinook(data: Path) -> Dataset[MariaDBSource]:
    """15,607 rows in 11 tables, foreign keys, unicode."""

    def load(source: MariaDBSource) -> None:
        with (data / "chinook" / "Chinook_MySql.sql").open("rb") as script:
            source.client(stdin=script)

    writes = (
        ("UPDATE Track SET UnitPrice = UnitPrice + 0.01 WHERE TrackId = 1 + {r} % 3503",),
        ("INSERT INTO Playlist VALUES (1000 + {n}, 'ünïcode {n}')",
         "INSERT INTO PlaylistTrack VALUES (1000 + {n}, 1 + {r} % 3503)"),
        ("DELETE FROM InvoiceLine WHERE InvoiceLineId = 1 + {r} % 2240",),
        ("UPDATE PlaylistTrack SET TrackId = 1 + {r} % 3503 WHERE PlaylistId = 1000 + {n} - 2",),
    )  # fmt: skip
    return Dataset("chinook", "Chinook", load, writes)


TPCH_TABLES = """
CREATE OR REPLACE DATABASE tpch CHARACTER SET utf8mb4;
CREATE TABLE tpch.orders (
  o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT NOT NULL, o_orderstatus CHAR(1) NOT NULL,
  o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority CHAR(15) NOT NULL,
  o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL, o_comment VARCHAR(79) NOT NULL);
CREATE TABLE tpch.lineitem (
  l_orderkey BIGINT NOT NULL, l_partkey BIGINT NOT NULL, l_suppkey BIGINT NOT NULL, l_linenumber INT NOT NULL,
  l_quantity DECIMAL(15,2) NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL,
  l_discount DECIMAL(15,2) NOT NULL, l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL,
  l_linestatus CHAR(1) NOT NULL,
  l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL,
  l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL, l_comment VARCHAR(44) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber));
"""
NEW_LINEITEM = """INSERT INTO lineitem VALUES (100000000 + {n}, 1, 1, 1, 2, 3.5, 0, 0, 'N', 'O',
  '2026-01-01', '2026-01-01', '2026-01-01', 'NONE', 'AIR', 'new')"""


def tpch(scale: float, folder: Path) -> Dataset[MariaDBSource]:
    """Orders and lineitem: 7.5 million rows at scale 1."""
    keys = max(1, int(6_000_000 * scale))

    def load(source: MariaDBSource) -> None:
        source.client("--execute", TPCH_TABLES)
        for table, file in generated(scale, folder, "tbl"):
            infile = f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE tpch.{table} FIELDS TERMINATED BY '|'"
            source.client("--execute", infile)

    from_here = f"o_orderkey >= 1 + {{r}} * {keys} DIV 1000000"
    writes = (
        (f"UPDATE orders SET o_comment = 'w{{n}}' WHERE {from_here} ORDER BY o_orderkey LIMIT 2",),
        ("INSERT INTO orders VALUES (100000000 + {n}, 1, 'O', 1.5, '2026-01-01', '1-URGENT', 'me', 0, 'new')",
         NEW_LINEITEM),
        (f"DELETE FROM lineitem WHERE l_{from_here[2:]} ORDER BY l_orderkey, l_linenumber LIMIT 2",),
        (f"UPDATE orders SET o_orderkey = 200000000 + {{n}} WHERE {from_here} ORDER BY o_orderkey LIMIT 1",),
    )  # fmt: skip
    return Dataset("tpch", "tpch", load, writes, "lineitem")


def generated(scale: float, folder: Path, form: str) -> Iterator[tuple[str, Path]]:
    """TPC-H's orders and lineitem: table and file (`tbl`, or `csv` with a header), which goes when the next one is
    asked for.
    """
    program = Path(sys.executable).with_name("tpchgen-cli")
    tables = ("orders", "lineitem")
    asked = [f"--scale-factor={scale:g}", f"--tables={','.join(tables)}", f"--output-dir={folder}"]
    subprocess.run([str(program), form, *asked], check=True, stdout=subprocess.DEVNULL)
    for table in tables:
        file = folder / f"{table}.{form}"
        yield table, file
        file.unlink()
