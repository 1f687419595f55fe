"""What our parsers of the binary log take numbers and GTID sets for is what mysql-replication takes them for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysqlreplication.constants import BINLOG
from pymysqlreplication.gtid import GtidSet as LibraryGtidSet

from replicator.sources.mysql.offset import GtidSet
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent, parse_previous_gtids

RENAMED = {
    "FORMAT_DESCRIPTION_EVENT": "FORMAT_DESCRIPTION", "HEARTBEAT_LOG_EVENT": "HEARTBEAT",
    "IGNORABLE_LOG_EVENT": "IGNORABLE",
    "ROWS_QUERY_LOG_EVENT": "ROWS_QUERY", "GTID_LOG_EVENT": "GTID", "ANONYMOUS_GTID_LOG_EVENT": "ANONYMOUS_GTID",
    "PREVIOUS_GTIDS_LOG_EVENT": "PREVIOUS_GTIDS", "PARTIAL_UPDATE_ROWS_EVENT": "PARTIAL_UPDATE",
    "WRITE_ROWS_EVENT_V1": "WRITE_V1", "UPDATE_ROWS_EVENT_V1": "UPDATE_V1", "DELETE_ROWS_EVENT_V1": "DELETE_V1",
    "WRITE_ROWS_EVENT_V2": "WRITE_V2", "UPDATE_ROWS_EVENT_V2": "UPDATE_V2", "DELETE_ROWS_EVENT_V2": "DELETE_V2",
    "MARIADB_ANNOTATE_ROWS_EVENT": "ANNOTATE_ROWS", "MARIADB_BINLOG_CHECKPOINT_EVENT": "BINLOG_CHECKPOINT",
    "MARIADB_GTID_EVENT": "MARIADB_GTID", "MARIADB_GTID_GTID_LIST_EVENT": "GTID_LIST",
    "MARIADB_START_ENCRYPTION_EVENT": "START_ENCRYPTION",
}  # fmt: skip
# Events of servers before 5.1, and types that are not distinguished here.
UNUSED = {
    "UNKNOWN", "START_EVENT_V3", "LOAD", "SLAVE", "CREATE_FILE", "APPEND_BLOCK", "EXEC_LOAD", "DELETE_FILE", "NEW_LOAD",
    "PRE_GA_WRITE_ROWS", "PRE_GA_UPDATE_ROWS", "PRE_GA_DELETE_ROWS", "INTVAR_INVALID_INT", "INTVAR_LAST_INSERT_ID",
    "INTVAR_INSERT_ID",
}  # fmt: skip
NAMES = {name: RENAMED.get(name, name.removesuffix("_EVENT")) for name in vars(BINLOG) if "_EVENT" in name}
UUIDS = st.uuids().map(str)


@pytest.mark.parametrize("theirs", [name for name, ours in NAMES.items() if ours not in UNUSED])
def test_a_type_of_events_has_the_librarys_number(theirs: str) -> None:
    assert getattr(e, NAMES[theirs]) == getattr(BINLOG, theirs)


@given(st.dictionaries(UUIDS, st.sets(st.integers(1, 60), min_size=1), max_size=4))
def test_gtid_sets_are_the_librarys(numbers: dict[str, set[int]]) -> None:
    ours = GtidSet()
    for source, executed in numbers.items():
        for number in executed:
            ours.add(source, number)
    theirs = LibraryGtidSet(str(ours))
    assert {gtid.sid: [(low, after - 1) for low, after in gtid.intervals] for gtid in theirs.gtids} == ours.sources
    event = BinlogEvent(e.PREVIOUS_GTIDS, 0, 1, 0, "b.1", 4, 4, theirs.encoded())
    assert parse_previous_gtids(event) == str(ours)
    assert GtidSet.parse(str(theirs)).sources == ours.sources
