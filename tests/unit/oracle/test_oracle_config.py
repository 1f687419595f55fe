from __future__ import annotations

from typing import Any

import pytest

from replicator.errors import ConfigurationError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.sources.oracle.config import Committed, Logs, OracleConfig, TlsMode
from replicator.sources.oracle.offset import ScnOffset, parse_offset
from replicator.sources.oracle.types import ColumnDefinition, type_document, value_type

TABLE = TableId("SHOP", "T")


def test_a_form_becomes_a_configuration() -> None:
    config = OracleConfig.parse({"host": "db", "service": "ORCL", "user": "c##tidemark", "pdb": "shop"})
    assert (config.port, config.tls, config.committed, config.logs) == (1521, TlsMode.OFF, Committed.SERVER, Logs.ALL)
    assert (config.watermark_owner, config.pdb) == ("C##TIDEMARK", "SHOP")
    both = OracleConfig.parse({"host": "db", "service": "a", "sid": "b"})
    assert (both.service, both.sid) == ("a", "")
    assert OracleConfig.parse({"host": "db", "sid": "X", "user": '"Tide"'}).watermark_owner == "Tide"


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"host": "db"}, {"host": "db", "service": "a)(b"},
        {"host": "169.254.169.254", "service": "a"}, {"host": "db", "service": "a", "tls": "maybe"},
        {"host": "db", "service": "a", "pdb": "x;y"}, {"host": "db", "service": "a", "committed": "nobody"},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_right_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        OracleConfig.parse(wrong)


def test_the_password_is_not_shown() -> None:
    assert "s3cret" not in repr(OracleConfig.parse({"host": "db", "service": "a", "password": "s3cret"}))


def test_an_offset_is_its_scn_and_resumes_where_the_oldest_transaction_began() -> None:
    offset = ScnOffset(120, 100, 1)
    assert parse_offset(offset.to_dict()) == offset
    assert parse_offset(offset.to_dict()).low == 100
    assert (ScnOffset(120).low, ScnOffset(120, 130).low) == (121, 121)
    assert ScnOffset(119, 119) < offset
    assert str(offset) == "120"
    assert offset.covers(ScnOffset(120, 3))
    assert not offset.covers(ScnOffset(121))


@pytest.mark.parametrize("data", [{}, {"kind": "mysql", "scn": 1}, {"kind": "oracle", "scn": "x"},
                                  {"kind": "oracle", "scn": 1, "later": 2}, {"kind": "oracle", "scn": -1}])  # fmt: skip
def test_what_is_no_offset_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        parse_offset(data)


@pytest.mark.parametrize(
    ("definition", "kind"),
    [
        (ColumnDefinition("C", "NUMBER", precision=9), "int"),
        (ColumnDefinition("C", "NUMBER", precision=10, scale=0), "bigint"),
        (ColumnDefinition("C", "NUMBER", precision=19, scale=0), "decimal(19,0)"),
        (ColumnDefinition("C", "NUMBER", precision=5, scale=-2), "int"),
        (ColumnDefinition("C", "NUMBER", precision=3, scale=5), "decimal(5,5)"),
        (ColumnDefinition("C", "NUMBER", precision=38, scale=-10), "string"),
        (ColumnDefinition("C", "NUMBER", scale=0), "decimal(38,0)"),
        (ColumnDefinition("C", "NUMBER"), "string"),
        (ColumnDefinition("C", "FLOAT", precision=126), "string"),
        (ColumnDefinition("C", "DATE"), "timestamp_ntz"),
        (ColumnDefinition("C", "TIMESTAMP(6)"), "timestamp_ntz"),
        (ColumnDefinition("C", "TIMESTAMP(9)"), "string"),
        (ColumnDefinition("C", "TIMESTAMP(3) WITH LOCAL TIME ZONE"), "timestamp"),
        (ColumnDefinition("C", "TIMESTAMP(6) WITH TIME ZONE"), "timestamp"),
        (ColumnDefinition("C", "INTERVAL DAY(2) TO SECOND(6)"), "string"),
        (ColumnDefinition("C", "RAW", size=16), "binary"),
    ],
)
def test_a_type_becomes_the_one_that_holds_all_of_its_values(definition: ColumnDefinition, kind: str) -> None:
    assert str(value_type(definition, TABLE).type) == kind


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (ColumnDefinition("C", "CLOB"), "large objects"),
        (ColumnDefinition("C", "ADDRESS", owner="SHOP"), "object types"),
        (ColumnDefinition("C", "XMLTYPE"), "large objects"),
        (ColumnDefinition("C", "XMLTYPE", storage="OBJECT-RELATIONAL"), "stored as objects"),
        (ColumnDefinition("C", "XMLTYPE", owner="SHOP"), "object types"),
        (ColumnDefinition("C", "LONG"), "LogMiner does not show"),
        (ColumnDefinition("C", "FUTURE"), "does not know"),
    ],
)
def test_types_that_the_log_does_not_have_are_refused_by_name(definition: ColumnDefinition, why: str) -> None:
    with pytest.raises(UnsupportedType, match=why) as refused:
        value_type(definition, TABLE)
    assert "C of SHOP.T" in refused.value.message


def test_the_document_has_every_type() -> None:
    assert "| DATE | `timestamp_ntz` |" in type_document()
