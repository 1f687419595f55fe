"""What a snapshot shows, and which transactions of the log may be invisible to a snapshot taken later."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from replicator.errors import ConfigurationError
from replicator.model.change import EVERY
from replicator.sources.postgres.offset import LsnOffset, lsn_text, parse_lsn, parse_offset
from replicator.sources.postgres.wire.lsn_kernel import MAX_LSN_LENGTH, write_lsns
from replicator.sources.postgres.xid_snapshot import NAMED, InFlightTransactions, Snapshot


def test_a_snapshot_shows_what_had_ended() -> None:
    snapshot = Snapshot.parse("10:15:10,12")
    assert [xid for xid in range(8, 17) if snapshot.shows(xid)] == [8, 9, 11, 13, 14]
    assert Snapshot.parse("20:20:").shows(19)


def test_the_logs_transactions_have_32_bits_and_a_snapshots_64() -> None:
    wrap = 1 << 32
    snapshot = Snapshot.parse(f"{wrap + 2}:{wrap + 5}:{wrap + 2}")
    assert snapshot.shows(wrap - 1)  # just before the wrap
    assert snapshot.shows(1)
    assert not snapshot.shows(2)
    assert snapshot.shows(3)
    assert not snapshot.shows(5)
    xids = np.array([wrap - 1, 1, 2, 3, 5])
    assert snapshot.show(xids).tolist() == [snapshot.shows(xid) for xid in xids.tolist()]


def test_a_commit_is_settled_once_the_log_was_read_to_where_it_ended_when_it_was_seen_to_be_visible() -> None:
    settling = InFlightTransactions(frozenset())
    settling.committed(np.array([7]))
    settling.observed(100, Snapshot.parse("8:8:"))
    assert not settling.reached(99)
    assert settling.unsettled() == {"7"}
    assert settling.reached(100)
    assert settling.unsettled() == frozenset()


def test_a_commit_that_stays_invisible_stays_unsettled_however_far_the_log_is_read() -> None:
    settling = InFlightTransactions(frozenset({"5"}))
    settling.committed(np.array([9]))
    settling.observed(100, Snapshot.parse("5:10:5"))
    settling.reached(500)
    assert settling.unsettled() == {"5"}


@pytest.mark.parametrize("together", [1, 7, NAMED * 2])
def test_of_a_backlog_only_what_the_next_sighting_does_not_show_is_named(together: int) -> None:
    settling = InFlightTransactions(frozenset())
    settling.observed(100, Snapshot.parse(f"3:{NAMED * 3}:3"))
    for first in range(2, NAMED * 2, together):
        settling.committed(np.arange(first, min(first + together, NAMED * 2)))
    assert {"3", EVERY} <= settling.unsettled()
    assert len(settling.unsettled()) <= NAMED + 1
    settling.reached(100)
    assert settling.unsettled() == {"3"}


def test_of_a_backlog_that_no_observation_was_there_for_the_next_one_settles_what_it_shows() -> None:
    settling = InFlightTransactions(frozenset())
    settling.committed(np.arange(2, NAMED * 3))
    assert settling.unsettled() == {"2", str(NAMED * 3 - 1), EVERY}
    settling.observed(100, Snapshot.parse(f"3:{NAMED * 3 - 2}:3,70"))
    settling.reached(100)
    assert settling.unsettled() == {"3", "70", str(NAMED * 3 - 2), str(NAMED * 3 - 1)}
    settling.observed(200, Snapshot.parse(f"{NAMED * 3}:{NAMED * 3}:"))
    assert settling.reached(200)
    assert settling.unsettled() == frozenset()


def test_after_a_restart_in_a_backlog_whatever_was_not_visible_then_may_be_of_it() -> None:
    before = InFlightTransactions(frozenset())
    before.committed(np.arange(50, NAMED * 3))
    after = InFlightTransactions(before.unsettled())
    after.committed(np.array([NAMED * 3 + 7]))
    assert EVERY in after.unsettled()
    # 40 was open before any of them, NAMED * 3 + 2 began after them.
    after.observed(100, Snapshot.parse(f"40:{NAMED * 3 - 2}:40,70"))
    assert after.reached(100)
    assert after.unsettled() == {"70", str(NAMED * 3 - 2), str(NAMED * 3 - 1), str(NAMED * 3 + 7)}
    assert parse_offset(LsnOffset(1, after.names()).to_dict()).unsettled() == after.unsettled()


def test_an_offset_of_an_earlier_version_names_none_of_a_backlog() -> None:
    settling = InFlightTransactions(frozenset({EVERY}))
    settling.observed(100, Snapshot.parse("40:90:40,70"))
    assert settling.reached(100)
    assert settling.unsettled() == {"40", "70"}


def test_a_backlog_around_the_wrap_is_named_by_its_first_and_its_last() -> None:
    wrap = 1 << 32
    settling = InFlightTransactions(frozenset())
    settling.committed(np.arange(wrap - NAMED, wrap))
    settling.committed(np.arange(3, NAMED))
    assert settling.unsettled() == {str(wrap - NAMED), str(NAMED - 1), EVERY}
    again = InFlightTransactions(settling.unsettled())
    again.observed(100, Snapshot.parse(f"{wrap - 5}:{wrap + NAMED - 2}:{wrap - 5},{wrap + 9}"))
    again.reached(100)
    assert again.unsettled() == {str(wrap - 5), "9", str(NAMED - 2), str(NAMED - 1)}


def test_what_was_unsettled_at_an_offset_stays_so_whatever_is_read_later() -> None:
    settling = InFlightTransactions(frozenset())
    settling.committed(np.array([7]))
    offset = LsnOffset(90, settling.names())
    settling.observed(100, Snapshot.parse("8:8:"))
    settling.reached(100)
    assert settling.unsettled() == frozenset()
    assert offset.unsettled() == {"7"}


def test_offsets_survive_their_json_with_what_may_be_invisible() -> None:
    offset = LsnOffset(parse_lsn("16/B374D848"), lambda: frozenset({"12", "9", EVERY}))
    again = parse_offset(offset.to_dict())
    assert (str(again), again.unsettled()) == ("16/B374D848", {"12", "9", EVERY})
    assert LsnOffset(1) < again
    assert not again.covers(again), "what the catalog showed there is not known"
    seen = parse_offset({**again.to_dict(), "looked": str(again)})
    assert seen.covers(again)
    assert parse_offset(seen.to_dict()).looked == seen.looked
    assert parse_offset({"kind": "postgres", "lsn": lsn_text(0)}) == LsnOffset(0)


@pytest.mark.parametrize(
    "stored",
    [{}, {"kind": "mysql", "lsn": "0/0"}, {"kind": "postgres", "lsn": "1"}, {"kind": "postgres", "lsn": 7},
     {"kind": "postgres", "lsn": "0/1", "later": 1}, {"kind": "postgres", "lsn": "0/1", "unsettled": ["x"]}],
)  # fmt: skip
def test_what_is_no_offset_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        parse_offset(stored)


def test_places_have_the_same_text_one_by_one_and_many_at_once() -> None:
    lsns = np.array([0, 1, 15, 16, 0xB374D848, 1 << 32, (0x16 << 32) | 0xB374D848, (1 << 63) - 1, 0xABCDEF << 32])
    offsets, out = np.empty(len(lsns) + 1, np.int32), np.empty(MAX_LSN_LENGTH * len(lsns), np.uint8)
    write_lsns(lsns, offsets, out)
    texts = [out[first:last].tobytes().decode() for first, last in pairwise(offsets)]
    assert texts == list(map(lsn_text, lsns.tolist()))
