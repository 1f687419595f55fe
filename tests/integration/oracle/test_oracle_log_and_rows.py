"""The emulator's log tells what its tables hold: a random history is played, and its redo is applied by commits."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from testing.servers.oracle.engine.database import INVERSE, NAME
from testing.servers.oracle.engine.log.redo import COMMIT, DDL, DELETE, INSERT, UPDATE, Record, RedoLog
from testing.servers.oracle.server.embedded import EmbeddedOracle
from testing.workload.histories import SMALL, generate
from testing.workload.runner import Player

Rows = dict[int, dict[str, Any]]


def _applied(records: list[Record]) -> Rows:
    """By ROWID; what is committed."""
    open_ones: dict[tuple[int, int, int], list[Record]] = {}
    rows: Rows = {}
    for record in records:
        if record.undo:  # another transaction may have changed the row since: neither counts
            undone = open_ones[record.xid].pop()
            assert (undone.operation, undone.row) == (INVERSE[record.operation], record.row)
            continue
        if record.operation != COMMIT:
            open_ones.setdefault(record.xid, []).append(record)
            continue
        for one in open_ones.pop(record.xid, []):
            if one.operation == INSERT:
                rows[one.row] = dict(one.after)
            elif one.operation == UPDATE:
                known = {name: value for name, value in rows[one.row].items() if name in one.before}
                assert known.items() <= one.before.items()  # a column that was added later has its default
                rows[one.row] |= one.after
            elif one.operation == DELETE:
                del rows[one.row]
            elif one.operation == DDL and one.text.startswith("TRUNCATE"):
                rows.clear()
    return rows


@pytest.mark.parametrize("seed", [5, 11])
def test_the_log_of_a_random_history_tells_what_its_tables_hold(oracle: EmbeddedOracle, seed: int) -> None:
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute(f'CREATE USER "h{seed}" IDENTIFIED BY x')
        cursor.execute("SELECT current_scn FROM v$database")
        first = cursor.fetchone()[0]
        player = Player(generate(seed, "oracle", SMALL), oracle.connect, f"h{seed}")
        played = player.prepare()
        played.add(player.play())
        assert played.statements > 2 * played.failed
        cursor.execute(f"SELECT object_id FROM all_objects WHERE owner = 'h{seed}' AND object_type = 'TABLE'")
        tables = [obj for (obj,) in cursor.fetchall()]
    log = RedoLog(oracle.redo, oracle.log_bytes)
    log.open(0)
    records = [one for one in log.all() if one.scn > first]
    compared = 0
    with closing(oracle.postgres.connect(dbname=NAME)) as behind, behind.cursor() as cursor:
        for obj in tables:
            held = _held(cursor, obj)
            told = _applied([one for one in records if one.obj in (obj, 0)])
            assert told.keys() == held.keys()
            for rid, row in told.items():
                cells = {name: value for name, value in row.items() if name in held[rid]}
                assert cells.items() <= held[rid].items()
                compared += len(cells)
    assert compared > 100


def _held(cursor: Any, obj: int) -> Rows:
    """What Postgres has of a table, as text."""
    cursor.execute(f"SELECT attname FROM pg_attribute WHERE attrelid = 'o.t{obj}'::regclass AND attname ~ '^c[0-9]'")
    names = [name for (name,) in cursor.fetchall()]
    cells = ", ".join(
        f"CASE pg_typeof({name}) WHEN 'bpchar'::regtype THEN textin(bpcharout({name}::bpchar)) ELSE {name}::text END"
        for name in names
    )
    cursor.execute(f"SELECT ora_rid, {cells} FROM o.t{obj}")
    return {rid: dict(zip((name[1:] for name in names), row, strict=True)) for rid, *row in cursor.fetchall()}
