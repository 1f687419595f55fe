"""What an installation lacks, as the emulator answers it: a sentence, and the remedy to paste.

Errors that the emulator does not run into are injected by number: https://docs.oracle.com/en/error-help/db/ lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from replicator.errors import (
    LogPurged,
    SourceMisconfigured,
    SourceReplaced,
    SourceUnreachable,
    TableNotRead,
    TidemarkError,
    UnsupportedCharset,
)
from replicator.sources.base import CheckStatus, KeyRange, ReadOptions
from replicator.sources.oracle import KIND
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import connect, read_rows
from testing.servers.oracle.server.embedded import EmbeddedOracle
from tests.contract.oracle import OraclePlace
from tests.contract.place import REPLICATOR

pytestmark = pytest.mark.integration
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20))"
OPEN, UNDO = "ALTER PLUGGABLE DATABASE ALL OPEN;", "ALTER SYSTEM SET UNDO_RETENTION = 3600;"


@pytest.fixture
def place(oracle: EmbeddedOracle) -> Iterator[OraclePlace]:
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute("ALTER DATABASE ADD SUPPLEMENTAL LOG DATA")
    opened = OraclePlace(oracle.address, oracle.connect())
    yield opened
    opened.close()


@contextmanager
def setting(place: OraclePlace, name: str, value: str, usual: str) -> Iterator[None]:
    """Of the server."""
    with place.session.cursor() as cursor:
        cursor.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        try:
            yield
        finally:
            cursor.execute(f"ALTER SYSTEM SET {name} = '{usual}'")


def chunk(place: OraclePlace, table: str = "t") -> int:
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    try:
        return sum(batch.num_rows for batch in reader.read_chunk(place.table(table), KeyRange()).batches)
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("number", "kind", "sentence", "remedy"),
    [
        (1033, SourceUnreachable, "is not open: what the server says", OPEN),
        (1109, SourceUnreachable, "is not open: what the server says", OPEN),
        (1219, SourceUnreachable, "is not open: what the server says", "ALTER DATABASE OPEN;"),
        (1295, SourceReplaced, "the log files are not those of the database's dictionary", "Point the connection back"),
        (1346, SourceReplaced, "the log files are not those of the database's dictionary", "Point the connection back"),
        (1371, SourceMisconfigured, "cannot be used: what the server says", "EXECUTE DBMS_LOGMNR_D.BUILD("),
        (1555, SourceUnreachable, "does not have the rows of an SCN", UNDO),
        (8181, SourceUnreachable, "does not have the rows of an SCN", UNDO),
    ],
)
def test_what_the_source_answers_is_told_with_its_remedy(
    place: OraclePlace, number: int, kind: type[TidemarkError], sentence: str, remedy: str
) -> None:
    place.log.state()
    answered = f"tidemark,1000,1,1,what the server says,{number}"
    with setting(place, "answer_errors", answered, ",0,0,0,"), pytest.raises(kind) as found:
        place.log.state()
    assert sentence in found.value.message
    assert f"what the server says (error {number})" in found.value.message
    assert remedy in found.value.remedy
    assert found.value.retryable is (kind is SourceUnreachable)


def test_a_service_that_the_listener_does_not_know_is_told_with_the_statement_that_opens_it(
    place: OraclePlace,
) -> None:
    """DPY-6001: python-oracledb's for ORA-12514, as of a pluggable database that is closed."""
    (first, *_) = KIND.open({**place.config, "service": "SHOPPDB"}).check()
    assert first.status is CheckStatus.FAILED
    assert 'Service "SHOPPDB" is not registered with the listener' in first.detail
    assert first.remedy.startswith("Correct the service name or SID")
    assert first.remedy.endswith(OPEN)


def test_rows_that_undo_has_no_more_are_told_with_the_statement_that_keeps_them_longer(place: OraclePlace) -> None:
    place.run(KEYED)
    config = OracleConfig.parse(place.config)
    table, scn = place.table("t"), place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, 'x')")
    with closing(connect(config)) as session:
        for at, number in ((int(str(scn)), 1555), (2**50, 8181)):
            with (
                setting(place, "undo_retention", "0", "100000"),
                pytest.raises(TableNotRead, match=f"{number}") as found,
            ):
                read_rows(session, f'SELECT * FROM "{table.database}"."{table.name}" AS OF SCN {at}', table)
            assert UNDO in found.value.remedy
            assert found.value.retryable


def test_archived_logs_that_are_gone_are_told_with_the_command_that_restores_them(
    place: OraclePlace, oracle: EmbeddedOracle
) -> None:
    """https://docs.oracle.com/en/database/oracle/oracle-database/19/rcmrf/RESTORE.html: RESTORE ARCHIVELOG."""
    place.run(KEYED)
    start = place.follow("t")
    sequence = _column(place, "SELECT sequence# FROM v$log WHERE status = 'CURRENT'")
    for _ in range(5):  # more than there are groups: the first ones are overwritten
        place.run("DELETE FROM @.t")
        with place.session.cursor() as cursor:
            cursor.execute("ALTER SYSTEM SWITCH LOGFILE")
    oracle.delete_archived()
    oldest = _column(place, "SELECT MIN(sequence#) FROM v$log")
    with pytest.raises(LogPurged) as found:
        next(iter(place.messages(start)))
    assert f"thread 1, sequence {oldest - 1}, is gone" in found.value.message
    wanted = f"RMAN> RESTORE ARCHIVELOG FROM SEQUENCE {sequence} UNTIL SEQUENCE {oldest - 1} THREAD 1;"
    assert found.value.remedy.startswith(wanted)


def _column(place: OraclePlace, sql: str) -> int:
    with place.session.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def test_columns_of_a_national_character_set_that_the_driver_does_not_read_are_to_be_excluded(
    place: OraclePlace,
) -> None:
    """https://python-oracledb.readthedocs.io/en/v3.0.0/user_guide/globalization.html: thin mode has no UTF8."""
    place.run("CREATE TABLE @.n (id int PRIMARY KEY)", KEYED)
    with place.session.cursor() as cursor:
        cursor.execute(f'ALTER TABLE "{place.name}"."n" ADD ("n" NVARCHAR2(10))')
        cursor.execute(f'INSERT INTO "{place.name}"."n" VALUES (1, \'x\')')
    place.run("INSERT INTO @.t VALUES (1, 'x')")
    place.follow("n", "t")
    with setting(place, "nls_nchar_characterset", "UTF8", "AL16UTF16"):
        checked = character_set(place)
        assert checked.status is CheckStatus.WARNING
        assert checked.detail.startswith("The national character set is UTF8: the driver does not read columns")
        assert "Exclude such columns" in checked.remedy
        with pytest.raises(UnsupportedCharset, match="which the driver does not read") as found:
            chunk(place, "n")
        assert found.value.remedy.startswith("Exclude the columns of the types NCHAR, NVARCHAR2 and NCLOB")
        assert chunk(place, "t") == 1
    assert (character_set(place).status, chunk(place, "n")) == (CheckStatus.OK, 1)


def test_a_character_set_without_other_characters_than_ascii_is_warned_of(place: OraclePlace) -> None:
    with setting(place, "nls_characterset", "US7ASCII", "AL32UTF8"):
        checked = character_set(place)
    assert (checked.status, checked.detail) == (
        CheckStatus.WARNING,
        "The database's character set is US7ASCII: other characters that programs stored in it cannot be read.",
    )
    assert checked.remedy.startswith("SELECT id FROM shop.orders WHERE note <> CONVERT(")


def character_set(place: OraclePlace) -> Any:
    return next(one for one in KIND.open(place.config).check() if one.name == "character_set")
