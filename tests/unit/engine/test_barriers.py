"""From which snapshot on a table's log is whole: by the first barrier behind its addition."""

from __future__ import annotations

from replicator.sources.postgres.stream.snapshot_barriers import listed_in, whole_from, with_barriers
from replicator.sources.postgres.xid_snapshot import Snapshot

NOW = Snapshot(900, 1000, frozenset())


def test_a_table_that_was_added_long_ago_does_not_wait_for_what_the_newest_waits_for() -> None:
    comment = with_barriers("made", "", "500", ["700"], NOW)
    assert listed_in(comment) == ["500"]
    assert whole_from("450", "710", comment, NOW) == 500
    assert whole_from("700", "710", comment, NOW) == 710
    assert whole_from("720", "710", comment, NOW) == 720  # its own is still to come


def test_a_barrier_from_before_an_addition_was_committed_is_none() -> None:
    """Another worker wrote the comment while this one's addition was under way."""
    assert listed_in(with_barriers("made", "made before; barriers 300 400", "500", ["450"], NOW)) == ["300", "400"]


def test_a_table_that_is_not_named_waits_for_the_newest_barrier() -> None:
    assert whole_from(None, "710", "made; barriers 500", NOW) == 710
    assert whole_from(None, None, "", NOW) is None
    assert whole_from("450", None, "", NOW) == 450  # a publication of the user's


def test_the_list_of_barriers_is_bounded() -> None:
    comment = ""
    for xid in range(100, 900, 2):
        comment = with_barriers("made", comment, str(xid), [str(xid + 1)], NOW)
    assert len(listed_in(comment)) == 20
    assert listed_in(comment)[-1] == "898"
