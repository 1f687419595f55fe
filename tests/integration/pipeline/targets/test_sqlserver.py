"""SQL Server from a definitions file to a copy that is equal, through a statement and a key that moves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.contract.sqlserver import SecondaryPlace, SqlServerPlace, TrackedPlace
from webapp.management.commands.verify import verify
from webapp.replicators import selectors
from webapp.replicators.models import ReplicatorTable

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(params=[SqlServerPlace, SecondaryPlace, TrackedPlace])
def shop(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[SqlServerPlace]:
    opened = request.param.opened(request)
    yield opened
    opened.close()


def run_and_compare(tables: int) -> int:
    """Run until all tables are current, compare them, and return the number of rows.

    The log shows a new table where its change table begins.  A secondary shows that later, so up to five runs are made.
    """
    replicator = selectors.by_name("copy")
    for _ in range(5):
        with suppress(CommandError):  # a failed one that comes to be followed behind its end
            call_command("run", "copy", until_current=True, timeout=120, stdout=io.StringIO())
        rows = list(ReplicatorTable.objects.filter(replicator=replicator).exclude(state="dropped"))
        if len(rows) == tables:
            break
    assert {(row.state, row.error_code) for row in rows} == {("streaming", "")}
    reports = verify(replicator, rows, wait=0, shown=5)
    assert not [line for report in reports if not report.equal for line in report.lines()]
    assert len(reports) == tables
    return sum(report.source_rows for report in reports)


def test_a_copy_is_equal_through_changes_and_a_statement(shop: SqlServerPlace, tmp_path: Path) -> None:
    shop.run("CREATE TABLE @.orders (id int PRIMARY KEY, name nvarchar(40), total decimal(10, 2), at datetime2(7))")
    key = "id int IDENTITY PRIMARY KEY, " if isinstance(shop, TrackedPlace) else ""
    shop.run(f"CREATE TABLE @.lines ({key}n int, word varchar(20))")
    values = ", ".join(f"({n}, N'order {n}', {n}.25, '2026-01-02 03:04:05.1234567')" for n in range(300))
    lines = "(1, 'a'), (1, 'a'), (NULL, NULL)"
    shop.run(f"INSERT INTO @.orders VALUES {values}", f"INSERT INTO @.lines (n, word) VALUES {lines}")
    config = ", ".join(f'{name}: "{value}"' for name, value in shop.config.items() if name != "password")
    file = tmp_path / "shop.yml"
    file.write_text(f"""
connections:
  - {{name: erp, kind: sqlserver, config: {{{config}, password: "{shop.config["password"]}"}}}}
destinations: [{{name: folder, kind: delta, config: {{store: file, location: "file://{tmp_path}/delta"}}}}]
replicators:
  - {{name: copy, connection: erp, destination: folder, tables: ["{shop.name}.*"], state: running}}
""")
    call_command("apply", str(file), stdout=io.StringIO())
    assert run_and_compare(2) == 303
    shop.run("UPDATE @.orders SET name = N'it''s' WHERE id < 10", "UPDATE @.orders SET id = 900 WHERE id = 20")
    shop.undo("DELETE FROM @.orders")
    shop.session.run(f"ALTER TABLE {shop.name}.orders ADD note nvarchar(20)", shop.name)
    shop.run("INSERT INTO @.orders VALUES (901, N'new', 0.5, NULL, N'x')", "DELETE FROM @.orders WHERE id IN (5, 6)")
    shop.run("DELETE FROM @.lines WHERE n = 1", "INSERT INTO @.lines (n, word) VALUES (7, 'b')")
    shop.run("CREATE TABLE @.later (id int PRIMARY KEY)", "INSERT INTO @.later VALUES (1)")
    assert run_and_compare(3) == 299 + 2 + 1
    refuse(shop)
    shop.run("DROP TABLE @.refused", "INSERT INTO @.later VALUES (2)")  # while nothing runs
    assert run_and_compare(3) == 299 + 2 + 2
    refuse(shop)
    shop.run("DROP TABLE @.refused", "CREATE TABLE @.refused (id int PRIMARY KEY)", "INSERT INTO @.refused VALUES (1)")
    assert run_and_compare(4) == 299 + 2 + 2 + 1


def refuse(shop: SqlServerPlace) -> None:
    """A new table that cannot be followed, and fails."""
    shop.run("CREATE TABLE @.refused (v sql_variant NOT NULL PRIMARY KEY)")
    while not (refused := ReplicatorTable.objects.filter(name="refused", state="failed")):
        with suppress(CommandError):  # in this run or behind its end
            call_command("run", "copy", until_current=True, timeout=120, stdout=io.StringIO())
    assert refused[0].error_code == "unsupported_type"
