"""Clients of a real server: two of a group split the shards and one dies; a wait ends when something comes, and holds
nothing meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from replicator.streams.client import Batch, Client, Consumer, StreamRefused
from tests.integration.streams.journal import Journal
from webapp.streams import reading, services
from webapp.streams.models import GroupMember, Stream

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
SHARDS = 4


@pytest.fixture
def journal(staging: None, transactional_db: None) -> Journal:
    return Journal("orders", "items")


@pytest.fixture
def stream(journal: Journal) -> Stream:
    return services.create_stream(name="all", replicator=journal.replicator, shards=SHARDS)


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Member:
    """A consumer in a thread; `die` ends it before its next ack, without leaving the group."""

    def __init__(self, client: Client, told: list[tuple[str, int, list[int]]], name: str) -> None:
        self.name, self.told, self.die = name, told, threading.Event()
        self.consumer = Consumer(client, "all", group="g", name=name, lease_seconds=8, max_rows=7)
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.consumer.__enter__()
            for batch in self.consumer:
                self.told.append((self.name, batch.shard, [one["sequence"] for one in batch.changes]))
                if self.die.is_set():
                    return  # without an ack, and without leaving
                self.consumer.ack(batch)
        except BaseException as error:
            self.error = error
            raise


def test_two_clients_of_a_group_split_the_shards_and_one_goes_on_when_the_other_dies(
    journal: Journal, stream: Stream, client: Client
) -> None:
    told: list[tuple[str, int, list[int]]] = []
    one = Member(client, told, "one")
    until(lambda: one.consumer.shards == (0, 1, 2, 3))
    two = Member(client, told, "two")
    until(lambda: len(one.consumer.shards) == len(two.consumer.shards) == 2)
    for start in range(0, 200, 20):
        journal.log("orders", *range(start, start + 20))
    until(lambda: len({number for _, _, numbers in told for number in numbers}) == 200)
    assert {name for name, _, _ in told} == {"one", "two"}
    by_shard: dict[int, set[str]] = {}
    for name, shard, _ in told:
        by_shard.setdefault(shard, set()).add(name)
    assert all(len(names) == 1 for names in by_shard.values())
    two.die.set()
    for start in range(200, 300, 20):
        journal.log("orders", *range(start, start + 20))
    until(lambda: one.consumer.shards == (0, 1, 2, 3))
    until(lambda: len({n for name, _, numbers in told for n in numbers if name == "one" or n < 200}) == 300)
    assert (one.error, two.error) == (None, None)
    one.die.set()
    journal.log("orders", *range(300, 340))
    one.thread.join(30)
    assert not one.thread.is_alive()
    for shard in range(SHARDS):
        _assert_in_order([numbers for _, at, numbers in told if at == shard])


def _assert_in_order(batches: list[list[int]]) -> None:
    """What was not seen before is behind all that was: nothing comes late, though it may come again."""
    seen = {-1}
    for number in (number for numbers in batches for number in numbers):
        assert number in seen or number > max(seen)
        seen.add(number)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """waiting() -> the requests that wait for something to come."""
    room = threading.BoundedSemaphore(reading.MAX_WAITING)
    monkeypatch.setattr(reading, "_waiting", room)
    return lambda: reading.MAX_WAITING - room._value


def asking(client: Client, *shards: int) -> list[threading.Thread]:
    """A request for each shard, which waits as long as one may."""
    threads = [threading.Thread(target=client.changes, args=("all", one), kwargs={"wait": 25}) for one in shards]
    for thread in threads:
        thread.start()
    return threads


def test_a_wait_ends_soon_after_something_comes(
    journal: Journal, stream: Stream, client: Client, waiting: Callable[[], int]
) -> None:
    found: list[Batch] = []
    began = time.monotonic()
    thread = threading.Thread(target=lambda: found.append(client.changes("all", 0, wait=25)))
    thread.start()
    until(lambda: waiting() == 1)
    journal.log("items", *range(40))
    thread.join(20)
    assert found[0].changes
    assert time.monotonic() - began < 20


def test_a_wait_without_anything_ends_in_time(
    journal: Journal, stream: Stream, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LOOK_SECONDS", 60.0)
    began = time.monotonic()
    assert client.changes("all", 0, wait=1).changes == []
    assert 1 <= time.monotonic() - began < 20


def test_a_wait_holds_no_connection(
    journal: Journal, stream: Stream, client: Client, waiting: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LOOK_SECONDS", 60.0)
    before = sessions()
    threads = asking(client, 0, 1)
    until(lambda: waiting() == 2 and len(sessions() - before) <= 1)  # the listener of the process
    assert waiting() == 2, "they waited all the while"
    journal.log("items", *range(40))
    for thread in threads:
        thread.join(60)
    until(lambda: sessions() <= before)


def sessions() -> set[int]:
    """The servers' processes of the database's other sessions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return {pid for (pid,) in cursor.fetchall()}


def test_no_more_wait_than_leave_room_for_others(
    journal: Journal, stream: Stream, client: Client, waiting: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = asking(client, *range(reading.MAX_WAITING))
    until(lambda: waiting() == reading.MAX_WAITING)
    assert client.changes("all", 3, wait=25).changes == []
    assert waiting() == reading.MAX_WAITING, "the first still wait"
    for name in ("orders", "items"):
        journal.log(name, *range(40))
    for thread in threads:
        thread.join(60)


def test_a_stream_that_is_disabled_ends_a_wait(
    journal: Journal, stream: Stream, client: Client, waiting: Callable[[], int]
) -> None:
    found: list[Any] = []

    def ask() -> None:
        try:
            client.changes("all", 0, wait=25)
        except StreamRefused as error:
            found.append((error.status, error.code))

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: waiting() == 1)
    services.set_enabled(stream=stream, enabled=False)
    thread.join(20)
    assert found == [(409, "stream_disabled")]


def test_arrow_comes_apart_and_a_refusal_says_why(journal: Journal, stream: Stream, client: Client) -> None:
    journal.log("orders", *range(30))
    found = [client.tables("all", shard) for shard in range(SHARDS)]
    numbers = [n for tables, _, _ in found for table in tables for n in table.column("_sequence_num").to_pylist()]
    assert sorted(numbers) == list(range(30))
    with pytest.raises(StreamRefused, match="shards 0 to 3") as caught:
        client.tables("all", 9)
    assert (caught.value.status, caught.value.code) == (400, "configuration")
    with pytest.raises(StreamRefused) as caught:
        Client(client._url, "wrong", patience=1).shards("all")
    assert caught.value.status == 401


def test_a_consumer_that_slept_too_long_joins_again_and_gets_again_what_it_did_not_ack(
    journal: Journal, stream: Stream, client: Client
) -> None:
    journal.log("orders", *range(20))
    seen: list[int] = []
    with Consumer(client, "all", group="g", lease_seconds=8, max_rows=100, idle=6) as consumer:
        for batch in consumer:
            numbers = [one["sequence"] for one in batch.changes]
            if not seen:
                GroupMember.objects.all().delete()
                assert not consumer.ack(batch)
            else:
                consumer.ack(batch)
            seen += numbers
    assert sorted(set(seen)) == list(range(20))
    assert len(seen) > 20
    assert not GroupMember.objects.exists()
