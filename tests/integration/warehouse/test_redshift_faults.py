"""Redshift's own list of faults: each statement and each file, cut, lost, refused, throttled, or without a valid token.

Between upload, load, merge, position and commit is a statement each time; kills are in the pipeline's tests.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

import pyarrow as pa
import pytest

from replicator.errors import TargetError, TargetUnauthorized
from replicator.model.schema import TableSchema
from replicator.targets.base import Create, Evolve, Rename, Target, TargetChange, TargetTable
from replicator.targets.redshift.aws import Aws
from replicator.targets.redshift.config import destination
from testing.servers.glue import EmbeddedGlue
from testing.servers.redshift import CUT, FULL, LOST, EmbeddedRedshift
from testing.servers.stores.s3_answers import S3Answers
from tests.contract.targets.model import Model
from tests.crash.faults.proxy import Proxy
from tests.integration.warehouse.copies import KEYED, RedshiftCopies
from tests.staged import Change, delete, insert, schema_of, update

pytestmark = pytest.mark.integration
KEYLESS = schema_of({"id": "int", "v": "string"})
WIDER = schema_of({"id": "bigint", "v": "string", "w": "float"}, ["id"])


class Meeting:
    """Something goes wrong with the statement of this number, from 0, of all that come."""

    def __init__(self, server: EmbeddedRedshift, number: int, how: str) -> None:
        self.statements: list[str] = []
        self._server, self._number, self._how, self._lock = server, number, how, threading.Lock()

    def __enter__(self) -> Self:
        self._server.meet = self
        return self

    def __exit__(self, *_: object) -> None:
        self._server.meet = lambda _: ""

    def __call__(self, sql: str) -> str:
        with self._lock:
            if sql == "SELECT 1":  # asked of a connection that idled; where it is broken another one is made
                return ""
            self.statements.append(sql)
            return self._how if len(self.statements) == self._number + 1 else ""

    @property
    def met(self) -> str:
        """That statement; empty where there were fewer."""
        return self.statements[self._number] if len(self.statements) > self._number else ""


def fails(worker: Target, table: TargetTable, change: TargetChange, meets: Meeting) -> str:
    """Return the statement at which a change failed; empty if all succeeded.  The next change reconnects."""
    found = None
    with meets:
        try:
            worker.apply(table, change, "L1")
        except TargetError as error:
            found = error
    assert (found is not None) == bool(meets.met), (meets.met, found)
    if found is not None:
        assert (found.retryable, bool(found.remedy)) == (True, True), found
    return meets.met


SHORT = {(CUT, True), (LOST, False)}  # in `make test`; the others are alike


@pytest.mark.parametrize(
    ("how", "schema"),
    [
        pytest.param(
            how, KEYED if keyed else KEYLESS, id=f"{how}-{'keyed' if keyed else 'keyless'}",
            marks=() if (how, keyed) in SHORT else pytest.mark.long,
        )
        for how in (CUT, LOST, FULL)
        for keyed in (True, False)
    ],
)  # fmt: skip
def test_a_merge_is_done_once_whatever_happens_to_any_of_its_statements(
    shift: RedshiftCopies, how: str, schema: TableSchema
) -> None:
    table, model, met = shift.table(schema, load="L1"), Model(schema), list[str]()
    failing, worker = shift.another_worker(), shift.target
    for number in itertools.count():
        row, at = (number, "a"), 4 * number
        changes: list[Change] = [
            insert(at, *row),
            insert(at + 1, -number - 1, None),
            update(at + 2, row, (number, "b")),
        ]
        if number:
            changes.append(delete(at + 3, number - 1, "b"))
        change, before = shift.change(schema, *changes), Counter(model.rows)
        statement = fails(failing, table, change, Meeting(shift.redshift, number, how))
        model.follow(changes)
        position = worker.position(table)
        assert position is not None
        if not statement:
            break
        met.append(statement)
        done = position.applied == change.upto
        assert done == (how == LOST and statement == "COMMIT") or statement.startswith("DROP"), statement
        assert Counter(shift.rows(table)) == (model.rows if done else before), statement
        for _ in range(20):
            try:
                assert (worker.apply(table, change, "L1").how == "skip") == done
                break
            except TargetError:  # the transaction of a connection that was cut may end a little later
                continue
        assert Counter(shift.rows(table)) == model.rows
        assert shift.files() == []
    for part in ("SET ", "CREATE TEMP TABLE", "COPY", "BEGIN", "UPDATE", "DELETE", "INSERT", "COMMIT"):
        assert any(one.startswith(part) for one in met), (part, met)


@pytest.mark.parametrize("how", [LOST, pytest.param(CUT, marks=pytest.mark.long)])
def test_a_definition_is_made_with_its_position_whatever_happens_to_any_of_its_statements(
    shift: RedshiftCopies, how: str
) -> None:
    changes: dict[str, Callable[[TargetTable], TargetChange]] = {
        "evolve": lambda _: Evolve(WIDER, 2),
        "rename": lambda table: Rename(TargetTable(table.namespace, f"{table.name}_new")),
        "create": lambda _: Create(WIDER, 2, 9, "L2"),
    }
    failing, worker = shift.another_worker(), shift.target
    for what, made in changes.items():
        table = shift.filled()
        for number in itertools.count():
            change = made(table)
            statement = fails(failing, table, change, Meeting(shift.redshift, number, how))
            new = change.new if isinstance(change, Rename) else table
            at, moved = worker.position(table), worker.position(new)
            assert (at is None) == (table.name not in shift.tables())
            assert (moved is None) == (new.name not in shift.tables())
            now = moved or at
            assert now is not None
            done = now.schema_version == 2 or at is None
            assert done == (not statement or (how, statement) == (LOST, "COMMIT")), (what, statement)
            there = table if at is not None else new
            kept = Counter[tuple[int]]() if done and what == "create" else Counter([(1,), (2,)])
            assert Counter(shift.values(there, "id")) == kept
            assert ("w" in shift.names(there)) == (done and what != "rename")
            if not statement:
                break
            table = shift.filled() if done else table


def test_an_upload_that_is_done_and_whose_answer_is_lost_is_made_again(shift: RedshiftCopies) -> None:
    """At the same path: one file, which is loaded once."""
    table, port = shift.table(KEYED), int(shift.settings["store_endpoint"].rpartition(":")[2])
    with Proxy("127.0.0.1", port) as proxy:
        shift.settings |= {"store_endpoint": f"http://{proxy.host}:{proxy.port}"}
        worker, change = shift.another_worker(), shift.change(KEYED, insert(0, 1, "a"))
        proxy.cut(1)
        worker.apply(table, change, "L1")
        assert proxy.cuts == 1
    assert shift.rows(table) == [(1, "a")]


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("SlowDown", TargetError, "SlowDown: .*reduce your request rate"),
        ("ExpiredToken", TargetUnauthorized, "ExpiredToken: .*token has expired"),
        ("AccessDenied", TargetUnauthorized, "AccessDenied"),
    ],
)
def test_a_store_that_refuses_changes_nothing_and_is_tried_again(
    shift: RedshiftCopies, code: str, kind: type[TargetError], told: str
) -> None:
    table, settings = shift.table(KEYED), dict(shift.settings)
    refusing = S3Answers(dict.fromkeys(("GET", "HEAD", "PUT", "POST", "DELETE"), code))
    refusing.start()
    shift.settings |= {"store_endpoint": refusing.endpoint}
    change = shift.change(KEYED, insert(0, 1, "a"))
    with pytest.raises(TargetError, match=told) as found:
        shift.another_worker().apply(table, change, "L1")
    refusing.stop()
    assert (type(found.value), found.value.retryable) == (kind, True)
    assert shift.rows(table) == []
    shift.settings = settings
    shift.another_worker().apply(table, change, "L1")
    assert shift.rows(table) == [(1, "a")]


def test_a_roles_token_that_has_expired_early_is_replaced(
    shift: RedshiftCopies, glue: EmbeddedGlue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS gives a role for an hour; a clock that is wrong, or a session that is ended, makes it less."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", glue.endpoint)  # moto, which plays it
    refusing = S3Answers({"PUT": "ExpiredToken"})
    refusing.start()
    settings = {**shift.settings, "role_arn": "arn:aws:iam::123456789012:role/load", "load": "keys"}
    aws = Aws(destination({**settings, "store_endpoint": refusing.endpoint}))
    first, again = aws.authorization(), aws.authorization()
    assert first == again
    with pytest.raises(TargetUnauthorized, match="ExpiredToken"):
        aws.put(pa.table({"id": [1]}))
    refusing.stop()
    assert aws.authorization() != first
