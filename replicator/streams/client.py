"""A client of pull streams.  One file without imports of Tidemark: copy it.  Only `tables` needs pyarrow.

    client = Client("https://tidemark.example.com", token)
    with Consumer(client, "orders", group="billing") as consumer:
        for batch in consumer:
            store(batch.changes)        # a second time must do no harm
            consumer.ack(batch)

Each batch is of one shard.  A client that dies between `store` and `ack` gets the batch again: at least once, in order,
without a gap.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

ARROW = "application/vnd.apache.arrow.stream"
TOO_OLD, MEMBER_GONE, NOT_HELD = "checkpoint_too_old", "member_gone", "shard_not_held"
BUSY = (429, 500, 502, 503, 504)


class StreamRefused(Exception):
    """The server's answer: `status` (HTTP), `code` (stable), `remedy`, and `oldest` where a checkpoint is too old."""

    def __init__(self, status: int, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer.get('message', '')} {answer.get('remedy', '')}".strip() or f"HTTP status {status}")
        self.status = status
        self.code = str(answer.get("code", ""))
        self.remedy = str(answer.get("remedy", ""))
        self.oldest = str(answer.get("oldest", ""))


@dataclass(frozen=True)
class Batch:
    """Changes of a shard in order.  `checkpoint`: the place behind them; `more`: there is more already."""

    shard: int
    checkpoint: str
    more: bool
    changes: list[dict[str, Any]] = field(default_factory=list)


class Client:
    """The REST API of one Tidemark.  Raises StreamRefused; where no answer comes within `patience` seconds, OSError."""

    def __init__(self, url: str, token: str, *, patience: float = 60) -> None:
        """`url`: as people open it; http and https."""
        if not url.startswith(("http://", "https://")):
            raise ValueError("The address must start with http:// or https://.")
        self._url, self._token, self._patience = url.rstrip("/"), token, patience

    def changes(self, stream: str, shard: int, **asked: Any) -> Batch:
        """asked: `begin` (a checkpoint, `oldest` or `latest`), `group`, `member`, `max_rows`, `max_bytes`, `wait`
        (seconds).
        """
        answer = json.loads(self._get_changes(stream, shard, asked, "application/json")[0])
        return Batch(shard, answer["checkpoint"], answer["more"], answer["changes"])

    def tables(self, stream: str, shard: int, **asked: Any) -> tuple[list[Any], str, bool]:
        """As Arrow: tables and events (dicts) in the order of their begins, the checkpoint behind them, and whether
        there is more.
        """
        import pyarrow as pa  # noqa: PLC0415 - who takes JSON needs none

        body, headers = self._get_changes(stream, shard, asked, ARROW)
        source, found = pa.BufferReader(body), []
        while source.tell() < len(body):
            with pa.ipc.open_stream(source) as one:
                event = (one.schema.metadata or {}).get(b"tidemark.event")
                data = one.read_all()
            found.append(data if event is None else json.loads(event))
        return found, headers["Tidemark-Checkpoint"], headers["Tidemark-More"] == "true"

    def shards(self, stream: str) -> list[dict[str, Any]]:
        """`shard`, `oldest` and `latest` of each."""
        found: list[dict[str, Any]] = self.call("GET", f"streams/{stream}/shards/")
        return found

    def ack(self, stream: str, shard: int, checkpoint: str, *, group: str, member: str = "") -> str:
        """All before the checkpoint is stored.  Returns where the group goes on."""
        body = {"group": group, "shard": shard, "checkpoint": checkpoint, "member": member}
        return str(self.call("POST", f"streams/{stream}/ack/", body)["checkpoint"])

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Any address below /api/v1/, in JSON."""
        answer = self._send(method, path, body, "application/json")[0]
        return json.loads(answer) if answer else None

    def _get_changes(self, stream: str, shard: int, asked: dict[str, Any], form: str) -> tuple[bytes, Any]:
        names = {name: value for name, value in asked.items() if value not in {"", None}}
        names["shard"] = shard
        if begin := names.pop("begin", ""):
            names["from"] = begin
        return self._send("GET", f"streams/{stream}/changes/?{urllib.parse.urlencode(names)}", None, form)

    def _send(self, method: str, path: str, body: dict[str, Any] | None, form: str) -> tuple[bytes, Any]:
        """Send a request, again while the server does not answer: all requests made here may be repeated."""
        until, pause = time.monotonic() + self._patience, 0.2
        while True:
            try:
                return self._once(method, path, body, form)
            except StreamRefused as error:
                if error.status not in BUSY or time.monotonic() > until:
                    raise
            except OSError:  # refused, reset, timed out
                if time.monotonic() > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 5)

    def _once(self, method: str, path: str, body: dict[str, Any] | None, form: str) -> tuple[bytes, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": form, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/api/v1/{path}", data, headers, method=method)  # noqa: S310 - checked above
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
                return answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            refusal: Any = {}
            with contextlib.suppress(ValueError):
                refusal = json.loads(text)
            raise StreamRefused(error.code, refusal if isinstance(refusal, dict) else {}) from None


class Consumer:
    """One client of a group, whose members share the shards.  Iterate; without `idle` the iteration never ends.

    idle: seconds without a change after which the iteration ends; None: never.
    """

    def __init__(
        self,
        client: Client,
        stream: str,
        *,
        group: str,
        name: str = "",
        lease_seconds: float = 30,
        max_rows: int = 10_000,
        begin: str = "oldest",
        idle: float | None = None,
    ) -> None:
        """`begin`: where a group that does not exist yet begins, `oldest` or `latest`."""
        self._client, self._stream, self._group = client, stream, group
        self._asked = {"name": name, "lease_seconds": lease_seconds, "begin": begin}
        self._lease, self._max_rows, self._idle = lease_seconds, max_rows, idle
        self._member, self._beat_at = "", 0.0
        self._read: dict[int, str] = {}  # by shard: the checkpoint behind what was given
        self._given: set[int] = set()  # shards with something that is not acked
        self.shards: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        self._join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves the group, so that the others go on at once."""
        with contextlib.suppress(OSError, StreamRefused):
            self._client.call("POST", self._path("leave"), {"member": self._member})

    def __iter__(self) -> Iterator[Batch]:
        """Batches with something in them, of one shard after the other."""
        quiet = time.monotonic()
        while self._idle is None or time.monotonic() - quiet < self._idle:
            found = False
            self._beat()
            for shard in self.shards:
                self._beat()
                if shard not in self.shards:  # it went with a heartbeat since
                    continue
                batch = self._next(shard)
                if batch is not None and batch.changes:
                    found = True
                    yield batch
                    quiet = time.monotonic()
            if not self.shards or not found:
                time.sleep(0.05 if self.shards else min(1.0, self._lease / 6))

    def ack(self, batch: Batch) -> bool:
        """Its changes are stored.  False where the shard is another member's by now: that one gets them again."""
        try:
            self._client.ack(self._stream, batch.shard, batch.checkpoint, group=self._group, member=self._member)
        except StreamRefused as error:
            if error.code not in {MEMBER_GONE, NOT_HELD}:
                raise
            self._beat_at = 0.0
            return False
        if batch.checkpoint == self._read.get(batch.shard):
            self._given.discard(batch.shard)
        return True

    def _next(self, shard: int) -> Batch | None:
        """Return the shard's next batch; None where this member no longer holds the shard."""
        wait = min(20.0, self._lease / 6) / max(len(self.shards), 1)
        asked = {"group": self._group, "member": self._member, "max_rows": self._max_rows, "wait": wait}
        try:
            batch = self._client.changes(self._stream, shard, begin=self._read.get(shard, ""), **asked)
        except StreamRefused as error:
            if error.code not in {MEMBER_GONE, NOT_HELD}:
                raise
            self._beat_at = 0.0
            return None
        went_on = batch.checkpoint != self._read.get(shard)
        self._read[shard] = batch.checkpoint
        if batch.changes:
            self._given.add(shard)
        elif went_on and shard not in self._given:  # other shards' changes: so that the group is not shown behind
            self.ack(batch)
        return batch

    def _beat(self) -> None:
        if time.monotonic() - self._beat_at < self._lease / 6:
            return
        try:
            answer = self._client.call(
                "POST", self._path("heartbeat"), {"member": self._member, "shards": list(self.shards)}
            )
        except StreamRefused as error:
            if error.code != MEMBER_GONE:
                raise
            self._join()
        else:
            self._hold(answer)

    def _join(self) -> None:
        answer = self._client.call("POST", self._path("join"), self._asked)
        self._member, self._read = answer["member"], {}
        self._hold(answer)

    def _hold(self, answer: dict[str, Any]) -> None:
        """What is new begins at the group's checkpoint."""
        self.shards, self._beat_at = tuple(answer["shards"]), time.monotonic()
        self._read = {shard: place for shard, place in self._read.items() if shard in self.shards}
        self._given &= self._read.keys()

    def _path(self, what: str) -> str:
        return f"streams/{self._stream}/groups/{self._group}/{what}/"
