"""What is Snowflake's own: sessions, what is left behind, keys that sign in, its answers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from snowflake.connector import errors

from replicator.errors import (
    ConfigurationError,
    TableError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    ValueDoesNotFit,
)
from replicator.targets.base import Create, TargetTable
from replicator.targets.snowflake.config import destination
from replicator.targets.snowflake.connection import STAGE, SnowflakeSession, private_key
from replicator.targets.snowflake.failures import explained
from replicator.targets.snowflake.value_limits import MAX_BYTES, MAX_TEXT, check_values
from tests.integration.warehouse.clouds import SnowflakeCopies
from tests.integration.warehouse.copies import KEYED
from tests.staged import insert

pytestmark = pytest.mark.integration


def test_a_worker_that_died_in_a_transaction_is_in_nobodys_way_for_long(snow: SnowflakeCopies) -> None:
    """Its session is left open, as a process that is killed leaves it."""
    table = snow.filled()
    session = snow.session()
    session.execute("BEGIN")
    session.execute(f"UPDATE {snow.dialect.place(snow.dialect.positions(table))} SET applied = 99")
    change = snow.change(KEYED, insert(2, 3, "c"))
    with pytest.raises(TargetConflict, match="lock"):
        snow.target.apply(table, change)
    over = threading.Event()
    for _ in range(100):
        try:
            snow.another_worker().apply(table, change)
            break
        except TargetConflict:
            over.wait(0.1)
    assert Counter(snow.rows(table)) == Counter([(1, "a"), (2, "b"), (3, "c")])
    session.close()


def test_files_and_staging_tables_that_were_left_behind_are_deleted(snow: SnowflakeCopies) -> None:
    session = snow.session()
    days = {days: f"{datetime.now(UTC) - timedelta(days=days):%Y%m%d}" for days in (0, 1, 2, 9)}
    file = Path(snow.storage.url.removeprefix("file://")).with_name("left.parquet")
    file.write_bytes(b"left")
    for day in days.values():
        session.query(f"PUT 'file://{file}' {STAGE}/{day}/attempt AUTO_COMPRESS=FALSE")
    stage = snow.dialect.stage(session, snow.filled(), pa.table({"id": pa.array([1], pa.int32())}))
    assert any(name in stage for name in snow.tables())
    session.close()
    assert not [name for name in snow.tables() if name.startswith("_tidemark_stage")]
    snow.another_worker().apply(TargetTable(snow.namespace, "first"), Create(KEYED, 1, -1, "L1"))
    left = str(snow.query(f"LIST {STAGE}/"))
    assert {day: text in left for day, text in days.items()} == {0: True, 1: True, 2: False, 9: False}


def test_a_key_pair_signs_in(snow: SnowflakeCopies) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for passphrase in (b"", b"pass"):
        hidden = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
        settings = snow.settings | {
            "authentication": "key_pair", "private_key": pem.decode(), "private_key_passphrase": passphrase.decode(),
        }  # fmt: skip
        session = SnowflakeSession(destination(settings))
        assert session.query("SELECT 1") == [(1,)]
        session.close()
    with pytest.raises(ConfigurationError, match="passphrase"):
        private_key(destination(settings | {"private_key_passphrase": "other"}))


def test_a_cell_that_is_too_long_stops_the_table_before_it_is_sent() -> None:
    for values, name in (
        (pa.array(["x" * (MAX_TEXT + 1)]), "text"),
        (pa.array([b"x" * (MAX_BYTES + 1)]), "binary value"),
        (pa.array([1 << 40], pa.timestamp("s")).cast(pa.timestamp("us")), "year"),
    ):
        with pytest.raises(ValueDoesNotFit, match=f"column c of shop.t .*{name}"):
            check_values(pa.table({"c": values}), "shop.t")
    check_values(pa.table({"a": ["x" * MAX_TEXT, None], "b": [b"x" * MAX_BYTES, None]}), "shop.t")


ANSWERS: list[tuple[Callable[[], errors.Error], type[TidemarkError], str]] = [
    (
        lambda: errors.DatabaseError(msg="Incorrect password", errno=390100, sqlstate="08001"),
        TargetUnauthorized,
        "login",
    ),
    (
        lambda: errors.DatabaseError(msg="OAuth token expired", errno=390318, sqlstate="08001"),
        TargetUnauthorized,
        "login",
    ),
    (lambda: errors.ProgrammingError(msg="gone", errno=390114, sqlstate="08001"), TargetError, "ended the session"),
    (lambda: errors.ProgrammingError(msg="no warehouse", errno=606, sqlstate="57P03"), TargetError, "warehouse"),
    (lambda: errors.ProgrammingError(msg="quota", errno=90073, sqlstate="57P03"), TargetError, "quota"),
    (lambda: errors.ProgrammingError(msg="locked", errno=625, sqlstate="57014"), TargetConflict, "lock"),
    (lambda: errors.ProgrammingError(msg="no", errno=3001, sqlstate="42501"), TargetUnauthorized, "allow"),
    (lambda: errors.ProgrammingError(msg="'v4lue'", errno=100038, sqlstate="22018"), ValueDoesNotFit, "value"),
    (lambda: errors.ProgrammingError(msg="no table", errno=2003, sqlstate="42S02"), TargetError, "no such object"),
    (lambda: errors.OperationalError(msg="503", errno=250003), TargetError, "failed"),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_each_answer_is_a_sentence_with_a_remedy(number: int) -> None:
    made, kind, told = ANSWERS[number]
    with pytest.raises(TidemarkError) as found, explained("Snowflake account A"):
        raise made()
    assert type(found.value) is kind
    assert told in found.value.message
    assert "v4lue" not in found.value.message
    assert found.value.remedy
    assert found.value.retryable == (not issubclass(kind, TableError))
