"""Files of a cluster's threads: which ranges of SCNs they give.

The emulator has one instance, so the views' rows stand here, as Oracle Database Reference describes them:
V$ARCHIVED_LOG (https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/V-ARCHIVED_LOG.html), V$THREAD
(https://docs.oracle.com/en/database/oracle/oracle-database/21/refrn/V-THREAD.html).
"""

from __future__ import annotations

import re
from typing import Any, Self, cast

import pytest

from replicator.errors import LogPurged
from replicator.sources.oracle.connection import Connection
from replicator.sources.oracle.stream.log_files import LogRange, log_ends, log_range, written_by_all

Row = tuple[Any, ...]
INCARNATION = 1


class Views:
    """A session that has these rows, and a cursor that reads them.

    logs: (thread, sequence, first SCN, next SCN) of archived ones; online: of the current ones; threads: (thread,
    enabled, last SCN written); own: the thread of the instance that answers.
    """

    def __init__(self, logs: list[Row], threads: list[Row], *, online: list[Row] = [], own: int = 1) -> None:  # noqa: B006
        self.logs, self.threads, self.online, self.own = logs, threads, online, own
        self.arraysize, self._found = 0, list[Row]()

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str) -> None:
        if "v$archived_log" in sql:
            found = re.search(r"next_change# > (\d+)", sql)
            assert found
            assert f"resetlogs_change# = {INCARNATION}" in sql
            self._found = [
                (*one, f"{one[0]}_{one[1]}.arc", 9, "ARCHIVED") for one in self.logs if one[3] > int(found[1])
            ]
        elif "v$logfile" in sql:
            self._found = [(*one, f"{one[0]}_{one[1]}.log", 9, "CURRENT") for one in self.online]
        elif "v$instance" in sql:
            self._found = [(self.own,)]
        elif "enabled <> 'DISABLED'" in sql:
            self._found = [(thread,) for thread, enabled, _ in self.threads if enabled]
        else:
            assert "v$thread" in sql
            self._found = [(thread, scn, 1, 1) for thread, _, scn in self.threads]

    def fetchall(self) -> list[Row]:
        return self._found

    def range(self, low: int, end: int = 10_000, *, archived: bool = True, ended: bool = False) -> LogRange | None:
        there = cast("Connection", self)
        return log_range(there, low, end, "db", INCARNATION, archived=archived, ended=ended)


def named(found: LogRange | None) -> tuple[set[str], int, int]:
    assert found is not None
    return {one.name for one in found.files}, found.low, found.end


BEHIND = [(1, 1, 1, 1000), (1, 2, 1000, 2000), (2, 1, 1, 500), (2, 2, 500, 1000)]  # thread 2 is
BOTH = [(1, True, 5000), (2, True, 5000)]


def test_archived_logs_are_read_up_to_what_the_thread_that_is_behind_has_archived() -> None:
    assert named(Views(BEHIND, BOTH).range(600)) == ({"1_1.arc", "2_2.arc"}, 600, 999)


def test_a_thread_that_is_enabled_and_has_no_archived_log_of_the_range_is_waited_for() -> None:
    views = Views(BEHIND, BOTH)
    assert views.range(1001) is None
    assert Views(BEHIND[:2], BOTH).range(600) is None
    views.logs = [*BEHIND, (2, 3, 1000, 1800)]
    assert named(views.range(1001)) == ({"1_2.arc", "2_3.arc"}, 1001, 1799)


def test_a_thread_that_is_disabled_is_not_waited_for() -> None:
    assert named(Views(BEHIND, [(1, True, 5000), (2, False, 1000)]).range(1001)) == ({"1_2.arc"}, 1001, 1999)


def test_of_an_incarnation_that_has_ended_no_thread_is_waited_for() -> None:
    assert named(Views(BEHIND, BOTH).range(1001, 1500, ended=True)) == ({"1_2.arc"}, 1001, 1500)


def test_online_logs_of_all_threads_are_read_beside_the_archived_ones() -> None:
    online = [(1, 3, 2000, 2**63), (2, 3, 1000, 2**63)]
    found = Views(BEHIND, BOTH, online=online).range(1001, 2500, archived=False)
    assert named(found) == ({"1_2.arc", "1_3.log", "2_3.log"}, 1001, 2500)


@pytest.mark.parametrize("archived", [True, False])
def test_the_log_of_any_thread_that_is_gone_is_named(*, archived: bool) -> None:
    logs = [*BEHIND, (2, 4, 1500, 2500)]
    online = [(1, 3, 2000, 2**63), (2, 5, 2500, 2**63)]
    with pytest.raises(LogPurged, match="thread 2, sequence 3, is gone"):
        Views(logs, BOTH, online=online).range(600, archived=archived)


@pytest.mark.parametrize(
    ("own", "scns", "end"),
    [
        (1, [(1, 50), (2, 900)], 900),  # the other instance has written less
        (1, [(1, 50), (2, 2000)], 1000),
        (2, [(1, 700), (2, 50)], 700),
        (1, [(1, 50), (2, 900), (3, 800)], 800),
        (1, [(1, 50)], 1000),  # its own log writer has written our commit
    ],
)
def test_a_range_ends_where_the_log_writers_of_other_instances_have_written(
    own: int, scns: list[tuple[int, int]], end: int
) -> None:
    views = Views([], [(thread, True, scn) for thread, scn in scns], own=own)
    there = cast("Connection", views)
    assert written_by_all(there, log_ends(there, "db"), 1000, "db") == end
