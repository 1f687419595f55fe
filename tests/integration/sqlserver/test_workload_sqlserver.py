"""Random histories on the emulator of SQL Server: nearly all statements are taken, and the change tables tell all of
them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from testing.workload.histories import Maker, Size
from testing.workload.runner import Played, Player
from testing.workload.sqlserver.driver import Connection
from testing.workload.sqlserver.spelling import quoted, text
from tests.crash.sources import SqlServer
from tests.integration.sqlserver.emulated import until

SEEDS = 3
TINY = Size(tables=(1, 3), rows=(0, 60), phases=(2, 2), steps=(5, 15))
TAKEN = 0.75
# Of columns that are what they were when they were captured, and whose old values the change table has.
COLUMNS = """
    SELECT t.capture_instance, t.source_object_id, c.column_name FROM cdc.change_tables t
    JOIN cdc.captured_columns c ON c.object_id = t.object_id
    JOIN sys.columns s ON s.object_id = t.source_object_id AND s.column_id = c.column_id
    JOIN sys.types k ON k.user_type_id = s.user_type_id
    WHERE c.is_computed = 0 AND s.max_length <> -1
    AND k.name NOT IN ('text', 'ntext', 'image', 'xml', 'geography', 'geometry', 'hierarchyid')
    ORDER BY t.capture_instance, c.column_ordinal
"""


@pytest.fixture
def source(sqlserver: EmbeddedSQLServer, tmp_path: Path) -> SqlServer:
    made = SqlServer(tmp_path)
    made.server = sqlserver
    return made


def asked(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    with closing(connection.cursor()) as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def test_change_tables_tell_all_that_histories_did(source: SqlServer) -> None:
    total, used, compared = Played(), Counter[str](), 0
    for seed in range(SEEDS):
        maker = Maker(seed, "sqlserver", TINY)
        name = f"workload{seed}"
        source.make(name)
        player = Player(maker.history(), lambda name=name: source.connect(name), name)
        made = player.prepare()
        assert not made.failed, made.errors
        before = captured(source, name)
        total.add(player.play())
        compared += equal(source, name, before)
        used += maker.draft.used
        source.drop(name)
    assert total.failed <= (1 - TAKEN) * total.statements, total
    assert total.lost == 0
    assert total.transactions > 10
    assert compared >= SEEDS
    assert len([one for one in used if one.startswith("type ")]) > 15


def captured(source: SqlServer, name: str) -> dict[int, int]:
    """Capture all tables; their rows now, by the table's id."""
    with closing(Connection(source.server.connect(name))) as connection:
        found = {}
        for table, number in asked(connection, "SELECT name, object_id FROM sys.tables WHERE is_ms_shipped = 0"):
            with closing(connection.cursor()) as cursor:
                cursor.execute(
                    f"EXEC sys.sp_cdc_enable_table @source_schema = {text(name)}, @source_name = {text(table)},"
                    f" @role_name = NULL, @capture_instance = N'i{number}', @supports_net_changes = 0"
                )
            found[number] = asked(connection, f"SELECT COUNT(*) FROM {quoted(name)}.{quoted(table)}")[0][0]
        return found


def equal(source: SqlServer, name: str, before: dict[int, int]) -> int:
    """How many tables are there still, all of whose rows follow from what the change tables have."""
    with closing(Connection(source.server.connect(name))) as connection:
        with closing(connection.cursor()) as cursor:  # a last change, after which the job has seen all
            for statement in ("CREATE TABLE dbo.last (id int)", "EXEC sys.sp_cdc_enable_table N'dbo', N'last', NULL"):
                cursor.execute(statement)
            cursor.execute("INSERT INTO dbo.last VALUES (1)")
        until(lambda: asked(connection, "SELECT id FROM cdc.dbo_last_CT"))
        columns: dict[tuple[str, int], list[str]] = {}
        for instance, number, column in asked(connection, COLUMNS):
            if number in before:
                columns.setdefault((instance, number), []).append(quoted(column))
        for (instance, number), names in columns.items():
            listed = ", ".join(names)
            ((schema, table),) = asked(
                connection, f"SELECT SCHEMA_NAME(schema_id), name FROM sys.tables WHERE object_id = {number}"
            )
            rows = Counter(asked(connection, f"SELECT {listed} FROM {quoted(schema)}.{quoted(table)}"))
            told: Counter[tuple[Any, ...]] = Counter()
            for operation, *values in asked(connection, f"SELECT [__$operation], {listed} FROM cdc.[{instance}_CT]"):
                told[tuple(values)] += 1 if operation in (2, 4) else -1
            first = Counter(rows)
            first.subtract(told)
            assert min(first.values(), default=0) >= 0, table  # the change table inserts no row that is not there
            assert sum(first.values()) == before[number], table
        return len(columns)
