"""Rows events that a kernel takes in runs say what they say one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from replicator.model.change import ChangeBatch, LogMessage, SchemaChange, TableFailed
from replicator.model.table_set import TableSet
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.stream import reader as mysql_log
from testing.workload.histories import Size, generate
from testing.workload.runner import Player
from tests.attended import play
from tests.integration.mysql.test_mysql_log import Log
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
TINY = Size(tables=(2, 4), rows=(0, 100), phases=(2, 3), steps=(10, 25))


def said(messages: Sequence[LogMessage]) -> dict[int | str, Any]:
    """Each change by its ordinal, each DDL by its ordinal, each failure by its table; however they were cut into
    batches.
    """
    found: dict[int | str, Any] = {}
    for message in messages:
        if isinstance(message, ChangeBatch):
            message.data.validate(full=True)
            for row in message.data.to_pylist():
                found[row["_sequence_num"]] = (message.table, message.schema, repr(row))
        elif isinstance(message, SchemaChange):
            found[message.ordinal] = (message.operation, message.table, message.schema, message.offset)
        elif isinstance(message, TableFailed):
            found[str(message.table)] = message.error.message
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_run_is_what_its_events_are(mariadb: EmbeddedMariaDB, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    log = Log(mariadb, f"runs_{seed}")
    player = Player(generate(seed, "mariadb", TINY), mariadb.connect, log.database)
    player.prepare()
    play(player, mariadb)
    log.control = connect(log.config)
    tables = TableSet(databases=frozenset({log.database}))
    in_runs = said(log.read(tables))
    monkeypatch.setattr(mysql_log, "PLAIN", frozenset())
    one_by_one = said(log.read(tables))
    log.run(f"DROP DATABASE {log.database}")
    log.control.close()
    assert len(in_runs) > 100
    assert in_runs == one_by_one
