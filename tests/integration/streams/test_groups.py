"""Members of a group have every shard once, hand them over one after the other, and lose them when nothing is heard of
them.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from replicator.errors import ConfigurationError, MemberGone, ShardNotHeld
from replicator.streams.position import StreamPosition, checkpoint
from tests.integration.streams.journal import Journal
from webapp.database import clock
from webapp.streams import groups, selectors, services
from webapp.streams.models import GroupMember, Stream, StreamCheckpoint

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


@pytest.fixture
def stream(staging: None, db: None) -> Stream:
    journal = Journal("orders")
    made = services.create_stream(name="all", replicator=journal.replicator, shards=4)
    journal.log("orders", *range(50))
    return made


def beat(stream: Stream, member: str, *held: int) -> tuple[int, ...]:
    return groups.heartbeat(stream=stream, group="g", member=member, held=held).shards


def expire(member: str) -> None:
    GroupMember.objects.filter(uid=member).update(expires_at=clock() - timedelta(seconds=1))


def ack(stream: Stream, shard: int, sequence: int, member: str = "") -> str:
    text = checkpoint(stream.uid, shard, StreamPosition(sequence))
    return groups.ack(stream=stream, group="g", shard=shard, text=text, member=member)


def test_a_shard_changes_hands_only_when_its_member_has_let_it_go(stream: Stream) -> None:
    one = groups.join(stream=stream, group="g")
    assert one.shards == (0, 1, 2, 3)
    two = groups.join(stream=stream, group="g")
    assert two.shards == ()
    assert beat(stream, two.member) == ()
    assert beat(stream, one.member, 0, 1, 2, 3) == (0, 1)  # notified, but has not released 2 and 3
    assert beat(stream, two.member) == ()
    ack(stream, 3, 7, one.member)  # what it was at
    assert beat(stream, one.member, 0, 1, 3) == (0, 1)  # 2 is let go
    assert beat(stream, two.member) == (2,)
    assert beat(stream, one.member, 0, 1) == (0, 1)
    assert beat(stream, two.member, 2) == (2, 3)
    with pytest.raises(ShardNotHeld):
        ack(stream, 3, 9, one.member)
    assert groups.acked(stream, "g", 3) == StreamPosition(7)
    ack(stream, 3, 9, two.member)


def test_the_shards_of_a_member_that_is_not_heard_of_go_to_the_others(stream: Stream) -> None:
    one, two = (groups.join(stream=stream, group="g").member for _ in range(2))
    beat(stream, one)
    assert beat(stream, two) == (2, 3)
    expire(one)
    assert beat(stream, two, 2, 3) == (0, 1, 2, 3)
    with pytest.raises(MemberGone):
        beat(stream, one, 0, 1)
    with pytest.raises(MemberGone):
        ack(stream, 0, 5, one)
    with pytest.raises(MemberGone):
        groups.check_held(stream, "g", one, 0)
    again = groups.join(stream=stream, group="g").member
    beat(stream, two)
    assert beat(stream, again) == (2, 3)


def test_a_member_that_leaves_gives_its_shards_at_once_and_what_was_to_go_stays(stream: Stream) -> None:
    one, two = (groups.join(stream=stream, group="g").member for _ in range(2))
    assert beat(stream, one, 0, 1, 2, 3) == (0, 1)
    groups.leave(stream=stream, group="g", member=two)
    assert beat(stream, one, 0, 1, 2, 3) == (0, 1, 2, 3)
    groups.leave(stream=stream, group="g", member=one)
    assert not StreamCheckpoint.objects.exclude(owner=None).exists()


def test_shares_stay_even_and_move_little(stream: Stream) -> None:
    members: dict[str, tuple[int, ...]] = {}

    def settle() -> None:
        for _ in range(4):
            for member, held in list(members.items()):
                members[member] = beat(stream, member, *held)

    for count in range(1, 7):
        before = dict(members)
        joined = groups.join(stream=stream, group="g")
        members[joined.member] = joined.shards
        settle()
        assert sorted(shard for held in members.values() for shard in held) == [0, 1, 2, 3]
        sizes = sorted(len(held) for held in members.values())
        assert sizes[-1] - sizes[0] <= 1
        assert all(set(members[member]) <= set(held) for member, held in before.items())
        assert len(members) == count
    for member in list(members)[:5]:
        expire(member)
        del members[member]
        settle()
        assert sorted(shard for held in members.values() for shard in held) == [0, 1, 2, 3]


def test_a_group_without_members_acks_by_itself_and_one_with_members_does_not(stream: Stream) -> None:
    ack(stream, 0, 5)
    member = groups.join(stream=stream, group="g").member
    with pytest.raises(ShardNotHeld):
        ack(stream, 0, 6)
    ack(stream, 0, 6, member)
    expire(member)
    ack(stream, 0, 7)
    assert groups.acked(stream, "g", 0) == StreamPosition(7)


def test_a_group_begins_at_the_oldest_or_at_the_end(stream: Stream) -> None:
    groups.join(stream=stream, group="g")
    groups.join(stream=stream, group="new", begin="latest")
    assert (groups.acked(stream, "g", 1), groups.acked(stream, "new", 1)) == (StreamPosition(0), StreamPosition(50))
    lags = {lag.group.name: lag for lag in selectors.group_lags([stream])[stream.pk]}
    assert (lags["g"].behind, lags["new"].behind, lags["new"].seconds) == (50, 0, 0)
    assert lags["g"].seconds > 0
    assert lags["g"].members == 1


def test_what_makes_no_sense_is_refused(stream: Stream) -> None:
    for wrong in ({"group": "Ü"}, {"lease_seconds": 0.1}, {"lease_seconds": float("nan")}, {"begin": "now"}):
        with pytest.raises(ConfigurationError):
            groups.join(stream=stream, **{"group": "g", **wrong})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no group"):
        beat(stream, "nobody")
    member = groups.join(stream=stream, group="g").member
    with pytest.raises(ConfigurationError, match="has members"):
        groups.delete_group(stream=stream, group="g")
    groups.leave(stream=stream, group="g", member=member)
    groups.delete_group(stream=stream, group="g")
    with pytest.raises(ConfigurationError, match="no group"):
        groups.delete_group(stream=stream, group="g")
