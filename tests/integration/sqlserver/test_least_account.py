"""An account with only the guide's least rights: what it may do, and the remedies that it gets for the rest."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import TableError
from replicator.model.change import ChangeBatch, LogMessage, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckStatus, KeyRange, ReadOptions
from replicator.sources.sqlserver.offset import LsnOffset
from replicator.sources.sqlserver.source import SqlServerSource, open_source
from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from tests.contract.sqlserver import captured_database
from tests.integration.sqlserver.emulated import Database

pytestmark = pytest.mark.integration
GUIDE = Path(__file__).parents[3] / "replicator" / "sources" / "sqlserver" / "README.md"
NAME, PASSWORD = "least_account", "Least-1234"
_NUMBERS = itertools.count(1)  # the emulator remembers what a database of the same name was
ORDERS, MORE = TableId("dbo", "orders"), TableId("dbo", "more")


def guide() -> list[str]:
    """The statements of "The user" without that which makes it a db_owner: an administrator's, for one table."""
    section = GUIDE.read_text().partition("## 2. The user")[2].partition("\n## ")[0]
    text = "".join(re.findall(r"```sql\n(.*?)```", section, re.DOTALL)[:2])
    statements = [one.strip() for one in re.sub(r"--.*", "", text).split(";") if one.strip()]
    assert any("db_owner" in one for one in statements)
    assert any("sp_cdc_enable_table" in one for one in statements)
    renamed = [re.sub(r"\b(LOGIN|USER|TO) tidemark\b", rf"\1 {NAME}", one) for one in statements]
    return [one.replace("…", PASSWORD) for one in renamed if "db_owner" not in one and not one.startswith("USE ")]


@dataclass
class Least:
    admin: Database
    source: SqlServerSource
    tables: TableSet

    def checks(self) -> dict[str, Any]:
        return {one.name: one for one in self.source.check(self.tables)}

    def read(self, start: Any, tables: TableSet, done: Any) -> list[LogMessage]:
        """Up to the first message for which `done` is true."""
        found = self.source.catalog().describe(sorted(tables.tables))
        schemas = {table: one for table, one in found.items() if not isinstance(one, TableError)}
        reader, seen = self.source.log_reader("least", ReadOptions()), list[LogMessage]()
        for message in reader.read(start, tables, schemas):
            seen.append(message)
            if done(message):
                break
        reader.close()
        return seen


@pytest.fixture
def least(sqlserver: EmbeddedSQLServer) -> Iterator[Least]:
    settings = captured_database(sqlserver, name := f"least{next(_NUMBERS)}")
    admin = Database(sqlserver, name)
    admin.run(*(f"CREATE TABLE dbo.{name} (id int PRIMARY KEY, v nvarchar(20))" for name in ("orders", "more")))
    admin.run("INSERT INTO dbo.orders VALUES (1, N'a'), (2, N'b')", *guide())
    source = open_source(settings | {"user": NAME, "password": PASSWORD})
    yield Least(admin, source, TableSet(tables=frozenset({ORDERS, MORE})))
    source.close()
    admin.close()
    with closing(sqlserver.connect()) as master:
        master.execute(f"DROP DATABASE {name}")
        master.execute(f"DROP LOGIN {NAME}")


def test_the_least_account_copies_a_captured_table_and_is_told_how_to_capture_another(least: Least) -> None:
    found = least.checks()
    failed = {name for name, one in found.items() if one.status is CheckStatus.FAILED}
    assert failed == {"captured"}
    assert "dbo.more" in found["captured"].detail
    assert "dbo.orders" not in found["captured"].detail
    assert found["instances"].status is found["agent"].status is CheckStatus.WARNING
    assert found["change_tables"].status is found["watermark"].status is CheckStatus.OK

    start = least.source.log("least").prepare(least.tables, first=True).offset
    reader = least.source.snapshot_reader("least", ReadOptions())
    chunk = reader.read_chunk(ORDERS, KeyRange())
    assert [row["id"] for batch in chunk.batches for row in batch.to_pylist()] == [1, 2]
    reader.close()

    least.admin.run("INSERT INTO dbo.orders VALUES (3, N'c')", "INSERT INTO dbo.more VALUES (1, N'unseen')")
    seen = least.read(start, least.tables, lambda one: isinstance(one, ChangeBatch))
    (refused,) = [one for one in seen if isinstance(one, TableFailed)]
    assert (refused.table, "sp_cdc_enable_table" in refused.error.remedy) == (MORE, True)
    assert [row["id"] for one in seen if isinstance(one, ChangeBatch) for row in one.data.to_pylist()] == [3]

    for statement in filter(None, map(str.strip, found["captured"].remedy.split(";"))):  # as an administrator pastes it
        least.admin.run(statement)
    assert least.checks()["captured"].status is CheckStatus.OK
    start = least.source.log("least").prepare(least.tables, first=True).offset
    least.admin.run("INSERT INTO dbo.more VALUES (2, N'seen')")
    seen = least.read(start, least.tables, lambda one: isinstance(one, ChangeBatch) and one.table == MORE)
    assert [row["id"] for one in seen if isinstance(one, ChangeBatch) for row in one.data.to_pylist()] == [2]


def test_the_least_account_sees_how_much_is_kept_and_one_with_less_goes_on_without(least: Least) -> None:
    least.admin.run("INSERT INTO dbo.orders VALUES (3, N'c')")
    offset = least.source.log("least").state().offset
    held = least.source.log("least").held(offset)
    assert held is not None
    assert held.bytes is not None
    assert least.source.catalog().infos([ORDERS])[ORDERS].bytes > 0
    least.admin.run(f"REVOKE VIEW DATABASE STATE FROM {NAME}")
    held = least.source.log("least").held(offset)
    assert held is not None
    assert (held.bytes, held.lost) == (None, False)
    assert isinstance(offset, LsnOffset)


def test_a_right_that_is_missing_is_named_with_the_grant(least: Least) -> None:
    least.admin.run(f"REVOKE SELECT ON SCHEMA::cdc FROM {NAME}")
    denied = least.checks()["change_tables"]
    assert (denied.status, denied.remedy) == (CheckStatus.FAILED, f"GRANT SELECT ON SCHEMA::cdc TO [{NAME}];")
    least.admin.run(denied.remedy, f"REVOKE SELECT ON SCHEMA::dbo FROM {NAME}")
    denied = least.checks()["grant_select"]
    assert denied.status is CheckStatus.FAILED
    least.admin.run(f"GRANT SELECT ON SCHEMA::dbo TO {NAME}", f"REVOKE UPDATE ON tidemark.watermark FROM {NAME}")
    denied = least.checks()["watermark"]
    assert denied.status is CheckStatus.FAILED
    assert f"GRANT SELECT, INSERT, UPDATE, DELETE ON [tidemark].[watermark] TO [{NAME}];" in denied.remedy


def test_an_account_that_msdb_does_not_let_in_keeps_its_session(least: Least) -> None:
    """Error 916, whose SQLSTATE is that of a connection that was refused
    (learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-916-database-engine-error).
    """
    least.admin.run("EXEC sp_emulator @name = 'habit', @value = 'no guest', @on = 1")
    found = least.checks()
    assert [name for name, one in found.items() if one.status is CheckStatus.FAILED] == ["captured"]
    assert found["retention"].status is CheckStatus.WARNING
    assert found["watermark"].status is CheckStatus.OK
