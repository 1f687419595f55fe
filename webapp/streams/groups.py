"""Groups of clients: who has which shard, and how far each shard is read.

A shard has one owner at a time.  When another member is to get it, the answer to the owner's next heartbeat no longer
lists it.  The owner keeps it until a later heartbeat no longer names it (or its lease runs out): so no two members ever
work on one shard, and its order holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from replicator.errors import ConfigurationError, MemberGone, ShardNotHeld
from replicator.streams.position import StreamPosition, checkpoint, parse
from webapp.database import clock
from webapp.streams.feed import captured
from webapp.streams.models import GroupMember, Stream, StreamCheckpoint, StreamGroup
from webapp.streams.services import NAME

LEASE_SECONDS, MIN_LEASE, MAX_LEASE = 30.0, 2.0, 600.0
OLDEST, LATEST = "oldest", "latest"
MAX_MEMBERS = 100


@dataclass(frozen=True)
class Membership:
    """The answer to a member: its shards now."""

    member: str
    lease_seconds: float
    shards: tuple[int, ...]


def join(
    *, stream: Stream, group: str, name: str = "", lease_seconds: float = LEASE_SECONDS, begin: str = OLDEST
) -> Membership:
    """A new member; the group is made if there is none, at `begin`."""
    if not MIN_LEASE <= lease_seconds <= MAX_LEASE:
        raise ConfigurationError(f"A lease lasts {MIN_LEASE:g} to {MAX_LEASE:g} seconds.")
    with _locked(stream, group, begin) as (found, now):
        if GroupMember.objects.filter(group=found, expires_at__gt=now).count() >= MAX_MEMBERS:
            raise ConfigurationError(f"A group has {MAX_MEMBERS} members at most.")
        ends = now + timedelta(seconds=lease_seconds)
        made = GroupMember.objects.create(group=found, name=name[:100], lease_seconds=lease_seconds, expires_at=ends)
        _share(found, now)
        return _membership(made)


def heartbeat(*, stream: Stream, group: str, member: str, held: Collection[int]) -> Membership:
    """`held`: the shards that the member still works on; what was to go and is not among them goes.  MemberGone."""
    with _locked(stream, group) as (found, now):
        one = _alive(found, member, now)
        one.expires_at = now + timedelta(seconds=one.lease_seconds)
        one.save(update_fields=["expires_at"])
        StreamCheckpoint.objects.filter(owner=one, revoked=True).exclude(shard__in=held).update(
            owner=None, revoked=False
        )
        _share(found, now)
        return _membership(one)


def leave(*, stream: Stream, group: str, member: str) -> None:
    """Its shards go to the others at once."""
    with _locked(stream, group) as (found, now):
        GroupMember.objects.filter(group=found, uid=member).delete()
        StreamCheckpoint.objects.filter(group=found, owner=None).update(revoked=False)
        _share(found, now)


def ack(*, stream: Stream, group: str, shard: int, text: str, member: str = "") -> str:
    """All before the checkpoint is done with; one that is behind what was acked before changes nothing.

    Returns the group's checkpoint.

    ShardNotHeld where the shard is another member's, so that who was thought dead cannot move it.
    """
    position = parse(text, stream.uid, shard)
    if position.sequence > captured(stream):
        raise ConfigurationError("This checkpoint is ahead of the captured changes.")
    with _locked(stream, group, OLDEST) as (found, now):
        held = StreamCheckpoint.objects.select_related("owner").get(group=found, shard=shard)
        owner = held.owner if held.owner is not None and held.owner.expires_at > now else None
        if member:
            _alive(found, member, now)
        if (owner.uid if owner else "") != member:
            raise ShardNotHeld(
                f"Shard {shard} is {'another member' if owner else 'not this member'}'s in the group {group}."
            )
        if position > held.position:
            held.sequence, held.offset = position
        held.acked_at = now
        held.save(update_fields=["sequence", "offset", "acked_at"])
        return checkpoint(stream.uid, shard, held.position)


def acked(stream: Stream, group: str, shard: int) -> StreamPosition | None:
    """Where the group is to go on; None for a group that does not exist yet."""
    found = StreamCheckpoint.objects.filter(group__stream=stream, group__name=group, shard=shard).first()
    return found.position if found else None


def check_held(stream: Stream, group: str, member: str, shard: int) -> None:
    """MemberGone, ShardNotHeld."""
    one = GroupMember.objects.filter(
        group__stream=stream, group__name=group, uid=member, expires_at__gt=clock()
    ).first()
    if one is None:
        raise _gone(member)
    if not one.checkpoints.filter(shard=shard).exists():
        raise ShardNotHeld(f"Shard {shard} is not this member's in the group {group}.")


def delete_group(*, stream: Stream, group: str) -> None:
    """Its checkpoints are forgotten.  ConfigurationError while it has members."""
    found = StreamGroup.objects.filter(stream=stream, name=group).first()
    if found is None:
        raise ConfigurationError(f"The stream {stream} has no group {group}.")
    if found.members.filter(expires_at__gt=clock()).exists():
        raise ConfigurationError(
            f"The group {group} has members.", remedy="Stop its clients first, or wait until their leases expire."
        )
    found.delete()


@contextmanager
def _locked(stream: Stream, group: str, begin: str | None = None) -> Iterator[tuple[StreamGroup, datetime]]:
    """The group, whose row is locked until the end, and the time.  `begin`: it is made there where there is none."""
    with transaction.atomic():
        if begin is not None:
            _ensure(stream, group, begin)
        found = StreamGroup.objects.select_for_update(no_key=True).filter(stream=stream, name=group).first()
        if found is None:
            raise ConfigurationError(f"The stream {stream} has no group {group}.", remedy="Join the group first.")
        yield found, clock()


def _ensure(stream: Stream, group: str, begin: str) -> None:
    if not NAME.fullmatch(group):
        raise ConfigurationError(
            "A group's name has 1 to 63 lowercase letters, digits, - and _, and begins with a letter or digit."
        )
    if begin not in {OLDEST, LATEST}:
        raise ConfigurationError(f"A group starts at {OLDEST} or {LATEST}.")
    found, made = StreamGroup.objects.get_or_create(stream=stream, name=group)
    if made:
        first = captured(stream) if begin == LATEST else stream.oldest
        rows = [StreamCheckpoint(group=found, shard=shard, sequence=first) for shard in range(stream.shards)]
        StreamCheckpoint.objects.bulk_create(rows)


def _alive(group: StreamGroup, member: str, now: datetime) -> GroupMember:
    one = GroupMember.objects.filter(group=group, uid=member, expires_at__gt=now).first()
    if one is None:
        raise _gone(member)
    return one


def _gone(member: str) -> MemberGone:
    return MemberGone(f"The group has no member {member[:20]}, or its lease has expired.")


def _share(group: StreamGroup, now: datetime) -> None:
    """As evenly as can be, and so that as few shards as can be change hands."""
    GroupMember.objects.filter(group=group, expires_at__lte=now).delete()
    rows = list(StreamCheckpoint.objects.filter(group=group).order_by("shard"))
    members = list(GroupMember.objects.filter(group=group).order_by("id"))
    held = {one.pk: [row for row in rows if row.owner_id == one.pk] for one in members}
    least, rest = divmod(len(rows), len(members)) if members else (0, 0)
    by_load = sorted(members, key=lambda one: (-len(held[one.pk]), one.pk))
    room = {one.pk: least + (place < rest) for place, one in enumerate(by_load)}
    free = [row for row in rows if row.owner_id is None]
    for one in by_load:
        mine = held[one.pk]
        for place, row in enumerate(mine):
            row.revoked = place >= room[one.pk]
        for row in free[: max(room[one.pk] - len(mine), 0)]:
            row.owner, row.revoked = one, False
            free.remove(row)
    for row in free:
        row.revoked = False
    StreamCheckpoint.objects.bulk_update(rows, ["owner", "revoked"])


def _membership(one: GroupMember) -> Membership:
    rows = StreamCheckpoint.objects.filter(owner=one, revoked=False).order_by("shard")
    return Membership(one.uid, one.lease_seconds, tuple(rows.values_list("shard", flat=True)))
