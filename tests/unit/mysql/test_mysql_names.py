"""Names where a server compares them in lower case.

lower_case_table_names = 2 stores names as they were typed.  Servers refuse it on a case-sensitive file system, so the
output of such a server is written by hand here: TABLE_MAPs in lower case or as typed, statements as typed, the catalog
as typed.
"""

from __future__ import annotations

from typing import Self

import pytest

from replicator.errors import ConfigurationError
from replicator.model.change import ChangeBatch, SchemaChange, TableFailed
from replicator.model.identifiers import TableId, TablePattern
from replicator.model.masks import Mask, MaskKind
from replicator.model.row_filter import parse_filter
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.names import LOWER_CASE_NAMES, folded, lowered
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent
from webapp.replicators.selection.entries import SelectionEntry, under

ORDERS = TableId("shop", "orders")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("TRUNCATE TABLE Orders", "TRUNCATE TABLE shop.orders"),
        ("DROP TABLE Orders, SHOP.T", "DROP TABLE shop.orders, shop.t"),
        ("RENAME TABLE Orders TO X.Y, A TO B", "RENAME TABLE shop.orders TO x.y, shop.a TO shop.b"),
        ("CREATE TABLE Orders LIKE Old.T", "CREATE TABLE shop.orders LIKE old.t"),
        ("ALTER TABLE Orders RENAME TO T, ADD Foo INT", "ALTER TABLE shop.orders RENAME TO shop.t, ADD Foo INT"),
        (
            "ALTER TABLE A EXCHANGE PARTITION P WITH TABLE B",
            "ALTER TABLE shop.a EXCHANGE PARTITION P WITH TABLE shop.b",
        ),
        ("CREATE DATABASE Shop", "CREATE DATABASE shop"),
        ("DROP DATABASE Shop", "DROP DATABASE shop"),
        ("DELETE FROM Orders WHERE a = 1", "DELETE FROM shop.orders WHERE a = 1"),
    ],
)
def test_a_statement_means_the_same_in_any_case(sql: str, expected: str) -> None:
    assert folded(parser.parse(sql, "Shop"), LOWER_CASE_NAMES) == parser.parse(expected, "shop")
    assert folded(parser.parse(sql, "Shop"), EXACT_NAMES) == parser.parse(sql, "Shop")


def test_a_selection_is_put_under_the_rule_with_all_that_is_said_of_its_tables() -> None:
    mask = Mask(MaskKind.NULL)
    typed = TableSet(
        tables=frozenset({TableId("Shop", "Orders")}),
        databases=frozenset({"Shop"}),
        excluded=frozenset({TableId("SHOP", "Secret")}),
        excluded_columns={TableId("Shop", "Orders"): frozenset({"A"}), ORDERS: frozenset({"B"})},
        patterns=frozenset({TablePattern("Crm", "Old_*")}),
        excluded_patterns=frozenset({TablePattern("Crm", "OLD_X?")}),
        masks={TableId("Shop", "Orders"): {"a": mask}, ORDERS: {"b": mask}},
    )
    tables = LOWER_CASE_NAMES.selection(typed)
    assert tables.tables == {ORDERS}
    assert tables.columns_left_out(ORDERS) == {"A", "B"}
    assert tables.masks == {ORDERS: {"a": mask, "b": mask}}
    assert TableId("shop", "secret") not in tables
    assert TableId("crm", "old_1") in tables
    assert TableId("crm", "old_x1") not in tables
    assert EXACT_NAMES.selection(typed) is typed


class Machine:
    """An interpreter of all tables of `Shop` without a catalog, which knows shop.orders (id INT)."""

    def __init__(self, names: NameRule) -> None:
        tables, options = names.selection(TableSet(databases=frozenset({"Shop"}))), ReadOptions()
        schemas = LogSchemas(tables, {}, options, None)
        self.inner = TransactionAssembler(tables, schemas, options, BinlogOffset("bin.000001", 4), None, names)

    def feed(self, kind: int, body: bytes = b"") -> None:
        self.inner.feed(BinlogEvent(kind, 1_700_000_000, 1, 0, "bin.000001", 100, 200, body))

    def query(self, sql: bytes, database: bytes = b"Shop") -> None:
        self.feed(e.QUERY, bytes(8) + bytes([len(database), 0, 0, 0, 0]) + database + b"\0" + sql)

    def insert(self, database: bytes, table: bytes) -> None:
        body = (7).to_bytes(6, "little") + b"\1\0"
        for name in (database, table):
            body += bytes([len(name)]) + name + b"\0"
        self.feed(e.TABLE_MAP, body + b"\1\3\0\0" + b"\4\3\2id")
        self.feed(e.WRITE_V2, (7).to_bytes(6, "little") + b"\1\0\2\0\1\xff\0" + (5).to_bytes(4, "little"))


@pytest.mark.parametrize("written", [(b"shop", b"orders"), (b"Shop", b"Orders")])
def test_under_two_rows_and_statements_meet_whatever_case_the_server_writes(written: tuple[bytes, bytes]) -> None:
    machine = Machine(LOWER_CASE_NAMES)
    machine.query(b"BEGIN")
    machine.insert(*written)
    machine.query(b"COMMIT")
    machine.query(b"TRUNCATE TABLE ORDERS")
    machine.query(b"RENAME TABLE `Orders` TO Orders2")
    machine.query(b"DROP DATABASE SHOP")
    machine.inner.settle()
    assert not [m for m in machine.inner.out if isinstance(m, TableFailed)]
    assert {m.table for m in machine.inner.out if isinstance(m, ChangeBatch)} == {ORDERS}
    told = [(m.operation.value, m.table.name) for m in machine.inner.out if isinstance(m, SchemaChange)]
    assert told == [
        ("CREATE_TABLE", "orders"),
        ("TRUNCATE_TABLE", "orders"),
        ("RENAME_TABLE", "orders"),
        ("DROP_TABLE", "orders2"),
        ("DROP_DATABASE", ""),
    ]


def test_under_zero_another_case_is_another_table() -> None:
    machine = Machine(EXACT_NAMES)
    machine.query(b"BEGIN")
    machine.insert(b"Shop", b"Orders")
    machine.query(b"COMMIT")
    machine.query(b"TRUNCATE TABLE orders")
    machine.inner.settle()
    told = [(m.operation.value, m.table) for m in machine.inner.out if isinstance(m, SchemaChange)]
    assert told == [("CREATE_TABLE", TableId("Shop", "Orders"))]


class AsTyped:
    """A connection whose server has lower_case_table_names = 2 and a table Shop.Orders; it compares without case."""

    server_version = "8.0.12"

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []

    def cursor(self) -> AsTyped:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str) -> None:
        column = ("Shop", "Orders", 1, "Id", "int", "int", None, None, 10, 0, None, None, "NO", "", "PRI", "")
        known = {
            "lower_case_table_names": [(2,)],
            "SCHEMATA": [("Shop",)],
            "COUNT(*)": [("Shop", 1, 10)],
            "TABLE_ROWS": [("Shop", "Orders", "InnoDB", 1, 10, "BASE TABLE", "")],
            "COLUMN_TYPE": [column],
            "STATISTICS": [("Shop", "Orders", "PRIMARY", 1, "Id", None, "BTREE", "YES")],
            "information_schema.TABLES": [("Shop", "Orders")],
        }
        self._rows = next(rows for part, rows in known.items() if part in sql)

    def fetchone(self) -> tuple[object, ...]:
        return self._rows[0]

    def fetchall(self) -> list[tuple[object, ...]]:
        return self._rows


def test_under_two_the_catalog_gives_lower_case_and_finds_any() -> None:
    left_out = TableSet(excluded_columns={TableId("SHOP", "ORDERS"): frozenset({"ID"})})
    catalog = MySqlCatalog(AsTyped(), hidden=frozenset({"TideMark"}))  # type: ignore[arg-type]
    assert catalog.names("SHOP") == [ORDERS]
    assert [(one.name, one.tables) for one in catalog.databases()] == [("shop", 1)]
    schema = catalog.describe([TableId("SHOP", "Orders")])[ORDERS]
    assert (schema.names, schema.key) == (("Id",), ("Id",))  # type: ignore[union-attr]
    without = MySqlCatalog(AsTyped(), left_out=left_out).describe([ORDERS])[ORDERS]  # type: ignore[arg-type]
    assert (without.names, without.key) == ((), ())  # type: ignore[union-attr]


def test_row_filters_of_one_table_under_two_names_hold_both() -> None:
    """What was stored before names were compared as the server does it."""
    filters = {TableId("Shop", "Orders"): parse_filter("a = 1"), TableId("shop", "ORDERS"): parse_filter("b = 2")}
    (one,) = LOWER_CASE_NAMES.selection(TableSet(row_filters=filters)).row_filters.values()
    assert str(one) == "a = 1 AND b = 2"


def test_a_table_that_is_named_twice_loses_no_mask() -> None:
    masked = SelectionEntry("Shop", "Orders", masks={"mail": Mask(MaskKind.NULL)})
    plain, left_out = SelectionEntry("shop", "orders"), SelectionEntry("shop", "orders", excluded=True)
    for second in (plain, left_out):
        with pytest.raises(ConfigurationError, match="listed twice"):
            under(LOWER_CASE_NAMES, [masked, second])
        assert len(under(EXACT_NAMES, [masked, second])) == 2
    assert under(LOWER_CASE_NAMES, [plain, SelectionEntry("SHOP", "Orders")]) == [plain]


def test_letters_are_folded_one_by_one() -> None:
    assert [lowered(name) for name in ("ÜBER_İẞΣ", "ΟΔΟΣ", "ſ")] == ["über_iẞσ", "οδοσ", "ſ"]
