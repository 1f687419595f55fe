"""What the server and the driver say, as errors of Tidemark's tree."""

from __future__ import annotations

from types import SimpleNamespace

import oracledb
import pytest

from replicator.errors import (
    LogPurged,
    SourceAuthenticationFailed,
    SourceMisconfigured,
    SourcePermissionDenied,
    SourceReplaced,
    SourceUnreachable,
    TableDisappeared,
    TableError,
    TableNotRead,
    UnsupportedCharset,
)
from replicator.model.identifiers import TableId
from replicator.sources.oracle.connection import tidemark_error

TABLE = TableId("SHOP", "T")


def raised(code: str, text: str) -> oracledb.DatabaseError:
    number = int(code.partition("-")[2])
    return oracledb.DatabaseError(
        SimpleNamespace(code=number if code.startswith("ORA") else 0, full_code=code, message=f"{code}: {text}")
    )


@pytest.mark.parametrize(
    ("code", "where", "kind"),
    [
        ("ORA-01017", "db", SourceAuthenticationFailed),
        ("ORA-01031", "db", SourcePermissionDenied),
        ("ORA-01291", "db", LogPurged),
        ("ORA-00308", "db", LogPurged),
        ("ORA-01109", "db", SourceUnreachable),
        ("ORA-12514", "db", SourceUnreachable),
        ("ORA-01555", "db", SourceUnreachable),
        ("ORA-08181", "db", SourceUnreachable),
        ("ORA-01295", "db", SourceReplaced),
        ("ORA-01346", "db", SourceReplaced),
        ("ORA-01371", "db", SourceMisconfigured),
        ("DPY-3012", "db", SourceMisconfigured),
        ("DPY-3012", TABLE, UnsupportedCharset),
        ("DPY-6001", TABLE, SourceUnreachable),
        ("DPY-6003", "db", SourceUnreachable),
        ("DPY-6005", "db", SourceUnreachable),
        ("ORA-00942", TABLE, TableDisappeared),
        ("ORA-01555", TABLE, TableNotRead),
        ("ORA-08181", TABLE, TableNotRead),
        ("ORA-01466", TABLE, TableNotRead),
        ("ORA-00904", TABLE, TableError),
        ("ORA-03113", TABLE, SourceUnreachable),
        ("DPY-4011", TABLE, SourceUnreachable),
        ("DPY-4042", TABLE, TableNotRead),
    ],
)
def test_a_code_is_an_error_of_the_source_or_of_its_one_table(
    code: str, where: str | TableId, kind: type[Exception]
) -> None:
    found = tidemark_error(raised(code, "what it says"), where)
    assert type(found) is kind
    assert "what it says" in found.message
    assert found.retryable == kind.retryable  # type: ignore[attr-defined]


def test_a_service_that_is_not_there_is_told_behind_the_driver_s_own_line() -> None:
    text = 'cannot connect to database\nDPY-6001: Service "X" is not registered with the listener'
    found = tidemark_error(raised("DPY-6005", text), "db")
    assert type(found) is SourceUnreachable
    assert "ALTER PLUGGABLE DATABASE ALL OPEN;" in found.remedy


def test_only_the_first_line_of_an_answer_is_told() -> None:
    """The others name the help page, and may hold the statement."""
    found = tidemark_error(raised("ORA-00904", '"X": invalid identifier\nHelp: https://docs.oracle.com/…'), TABLE)
    assert found.message == 'SHOP.T cannot be read: the server refuses it: "X": invalid identifier (error 904)'
