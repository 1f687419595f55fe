"""Offsets, names, types, literals and settings of SQL Server."""

from __future__ import annotations

import re

import pytest

from replicator.errors import ConfigurationError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.table_set import EXACT_NAMES
from replicator.sources import sqlserver
from replicator.sources.sqlserver.catalog.key_range_sql import given_literal, key_literal
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import _connection_string
from replicator.sources.sqlserver.ddl.table_changes import keeps_values
from replicator.sources.sqlserver.dialect import literal, quoted
from replicator.sources.sqlserver.names import name_rule
from replicator.sources.sqlserver.offset import CommitPoint, LsnOffset, lsn_text, parse_lsn, parse_offset
from replicator.sources.sqlserver.types import ColumnDefinition, column_of, data_type_of, select_expression

TABLE = TableId("dbo", "t")
SETTINGS = {"host": "db.example", "database": "shop", "user": "sa", "password": "s}ecret;PWD=x"}


def test_an_offset_is_read_back_as_it_was_stored() -> None:
    offset = LsnOffset(parse_lsn("0000002a:000001f8:0003"), CommitPoint(bytes(10), "0000000004AB", "2026-01-02 03:04"))
    again = parse_offset(offset.to_dict())
    assert isinstance(again, LsnOffset)
    assert (again, again.commit, str(again)) == (offset, offset.commit, "0000002a:000001f8:0003")
    assert LsnOffset(bytes(10)) < offset
    assert offset.covers(LsnOffset(bytes(10)))
    assert not LsnOffset(bytes(10)).covers(offset)


@pytest.mark.parametrize(
    "stored",
    [{"kind": "mysql", "lsn": lsn_text(bytes(10))}, {"kind": "sqlserver", "lsn": "1:2"}, {"kind": "sqlserver"},
     {"kind": "sqlserver", "lsn": lsn_text(bytes(10)), "later": 1}],
)  # fmt: skip
def test_what_is_no_offset_of_this_version_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        parse_offset(stored)


@pytest.mark.parametrize(
    ("collation", "written", "name"),
    [
        ("SQL_Latin1_General_CP1_CI_AS", "Orders", "orders"),
        ("Latin1_General_100_CS_AS_SC_UTF8", "Orders", "Orders"),
        ("Latin1_General_BIN2", "Orders", "Orders"),
        ("Turkish_CI_AS", "TITLE", "t\u0131tle"),
        ("Latin1_General_CI_AI", "ÄÖ", "äö"),
    ],
)
def test_names_are_compared_as_the_collation_does(collation: str, written: str, name: str) -> None:
    rule = name_rule(collation)
    assert rule.name(written) == name
    assert (rule is EXACT_NAMES) == (written == name)


def test_every_type_has_one_that_holds_all_its_values_and_others_stop_the_table() -> None:
    kinds = {
        "datetime2(7)": (ColumnDefinition("c", "datetime2", scale=7), "string"),
        "datetime2(6)": (ColumnDefinition("c", "datetime2", scale=6), "timestamp_ntz"),
        "datetimeoffset": (ColumnDefinition("c", "datetimeoffset", scale=7), "string"),
        "money": (ColumnDefinition("c", "money"), "decimal(19,4)"),
        "decimal": (ColumnDefinition("c", "decimal", precision=38, scale=38), "decimal(38,38)"),
        "tinyint": (ColumnDefinition("c", "tinyint"), "int"),
        "rowversion": (ColumnDefinition("c", "timestamp"), "binary"),
        "hierarchyid": (ColumnDefinition("c", "hierarchyid"), "string"),
        "sql_variant": (ColumnDefinition("c", "sql_variant"), "string"),
        "clr": (ColumnDefinition("c", "assembly", type_name="point3d"), "binary"),
    }
    assert {name: str(data_type_of(one, TABLE)) for name, (one, _) in kinds.items()} == {
        name: wanted for name, (_, wanted) in kinds.items()
    }
    for unknown in ("json", "vector"):
        with pytest.raises(UnsupportedType, match=rf"dbo\.t has the type {unknown}"):
            data_type_of(ColumnDefinition("c", unknown), TABLE)
    with pytest.raises(UnsupportedType, match="Always Encrypted"):
        data_type_of(ColumnDefinition("c", "int", encrypted=True), TABLE)
    with pytest.raises(UnsupportedType, match="reserved"):
        column_of(ColumnDefinition("_sequence_num", "int"), TABLE)


def test_a_sql_variant_is_text_by_its_base_type_and_refused_in_a_key() -> None:
    """learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql: a style is that of the type converted."""
    variant = ColumnDefinition("c", "sql_variant")
    text = select_expression(variant, "t.[a]")
    assert "{" not in text
    cases = dict(re.findall(r"WHEN '(\w+)' THEN (.*)", text))
    assert {base: style for base, style in cases.items() if "max" not in style} == {
        **dict.fromkeys(("float", "real"), "CONVERT(varchar(40), CAST(t.[a] AS float), 3)"),
        **dict.fromkeys(("money", "smallmoney"), "CONVERT(varchar(40), CAST(t.[a] AS money), 2)"),
        **dict.fromkeys(("datetime", "smalldatetime"), "CONVERT(varchar(40), CAST(t.[a] AS datetime), 121)"),
        **{kind: f"CONVERT(varchar(40), CAST(t.[a] AS {kind}(7)), 121)" for kind in ("datetime2", "datetimeoffset")},
        "time": "CONVERT(varchar(40), CAST(t.[a] AS time(7)), 121)",
        "date": "CONVERT(varchar(40), CAST(t.[a] AS date), 121)",
    }
    assert cases["binary"] == cases["varbinary"] == "CONVERT(varchar(max), CAST(t.[a] AS varbinary(8000)), 1)"
    assert "without that type" in column_of(variant, TABLE).warning
    with pytest.raises(UnsupportedType, match="only outside of keys"):
        column_of(variant, TABLE, key=True)


def test_texts_of_code_pages_are_made_unicode_by_the_server() -> None:
    assert select_expression(ColumnDefinition("c", "varchar", length=20), "[c]") == "CAST([c] AS nvarchar(20))"
    assert select_expression(ColumnDefinition("c", "varchar", length=8000), "[c]") == "CAST([c] AS nvarchar(max))"
    assert select_expression(ColumnDefinition("c", "nvarchar", length=40), "[c]") == "[c]"


@pytest.mark.parametrize(
    ("definition", "text", "sql"),
    [
        (ColumnDefinition("c", "bigint"), "-5", "-5"),
        (ColumnDefinition("c", "nvarchar", length=40), "it's", "N'it''s'"),
        (ColumnDefinition("c", "varchar", length=20, collation="Latin1_General_CI_AS"), "a",
         "CAST(N'a' COLLATE Latin1_General_CI_AS AS varchar(20))"),
        (ColumnDefinition("c", "decimal", precision=12, scale=3), "1.500", "CAST(N'1.500' AS decimal(12,3))"),
        (ColumnDefinition("c", "datetime"), "2026-01-02 03:04:05.003",
         "CAST(CONVERT(datetime2(7), N'2026-01-02 03:04:05.003', 121) AS datetime)"),
        (ColumnDefinition("c", "datetime2", scale=7), "2026-01-02 03:04:05.1234567",
         "CONVERT(datetime2(7), N'2026-01-02 03:04:05.1234567', 121)"),
        (ColumnDefinition("c", "varbinary", length=8), "0x00ff", "0x00ff"),
        (ColumnDefinition("c", "uniqueidentifier"), "6F9619FF-8B86-D011-B42D-00C04FC964FF",
         "CAST(N'6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier)"),
    ],
)  # fmt: skip
def test_key_values_are_literals_of_the_column_s_own_type(definition: ColumnDefinition, text: str, sql: str) -> None:
    assert key_literal(definition, text) == sql


def test_keys_that_people_write_are_taken_as_the_page_shows_them() -> None:
    assert given_literal(ColumnDefinition("c", "bit"), "true") == "CAST(N'1' AS bit)"
    assert given_literal(ColumnDefinition("c", "binary", length=2), "00ff") == "0x00ff"


def test_names_and_texts_cannot_break_out_of_a_statement() -> None:
    assert quoted("a]b", "c") == "[a]]b].[c]"
    assert literal("'; DROP TABLE x --") == "N'''; DROP TABLE x --'"


def test_settings_cannot_add_to_the_connection_string() -> None:
    text = _connection_string(SqlServerConfig.parse(SETTINGS), "192.0.2.1")
    assert "PWD={s}}ecret;PWD=x}" in text
    assert "TrustServerCertificate={no}" in text
    assert "HostnameInCertificate={db.example}" in text
    windows = _connection_string(SqlServerConfig.parse({**SETTINGS, "login": "windows"}), "192.0.2.1")
    assert "Trusted_Connection={yes}" in windows
    assert "s}}ecret" not in windows


@pytest.mark.parametrize(
    ("login", "authentication", "sent"),
    [
        ("entra_password", "ActiveDirectoryPassword", {"UID", "PWD"}),
        ("entra_service_principal", "ActiveDirectoryServicePrincipal", {"UID", "PWD"}),
        ("entra_managed_identity", "ActiveDirectoryMSI", {"UID"}),
        ("entra_default", "ActiveDirectoryDefault", set()),
    ],
)
def test_each_login_of_entra_sends_what_it_needs_and_no_more(login: str, authentication: str, sent: set[str]) -> None:
    """learn.microsoft.com/sql/connect/odbc/using-azure-active-directory."""
    text = _connection_string(SqlServerConfig.parse({**SETTINGS, "login": login}), "192.0.2.1")
    assert f";Authentication={{{authentication}}}" in text
    assert {name for name in ("UID", "PWD") if f";{name}=" in text} == sent
    assert ("s}}ecret" in text) == ("PWD" in sent)
    assert "Trusted_Connection" not in text
    if login == "entra_managed_identity":  # that of the machine, where it has but one
        alone = SqlServerConfig.parse({**SETTINGS, "login": login, "user": ""})
        assert "UID=" not in _connection_string(alone, "192.0.2.1")


def test_sessions_that_read_a_secondary_say_so_and_others_do_not() -> None:
    """learn.microsoft.com/sql/connect/odbc/windows/high-availability-and-disaster-recovery, ApplicationIntent."""
    given = {**SETTINGS, "read_from": "secondary", "secondary_host": "replica.example", "secondary_port": "1444"}
    config = SqlServerConfig.parse(given)
    assert "ApplicationIntent={ReadWrite}" in _connection_string(config, "192.0.2.1")
    text = _connection_string(config.of_reading, "192.0.2.2")
    assert "ApplicationIntent={ReadOnly}" in text
    assert "Server={tcp:192.0.2.2,1444}" in text
    assert "HostnameInCertificate={replica.example}" in text
    routed = SqlServerConfig.parse({**SETTINGS, "read_from": "secondary", "secondary_port": "1444"}).of_reading
    assert (routed.host, routed.port, routed.read_only) == ("db.example", 1433, True)
    tracking = SqlServerConfig.parse({**given, "capture": "change_tracking"})
    assert tracking.of_reading is tracking  # which SQL Server disables on secondaries


@pytest.mark.parametrize(
    "wrong", [{"database": ""}, {"host": "169.254.169.254"}, {"tls": "sometimes"}, {"watermark_schema": "a.b"},
              {"port": 0}, {"login": "trust me"}, {"read_from": "secondary", "secondary_host": "169.254.169.254"}],
)  # fmt: skip
def test_settings_that_cannot_be_right_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        sqlserver.KIND.valid({**SETTINGS, **wrong})


@pytest.mark.parametrize(
    ("before", "after", "stays"),
    [
        (ColumnDefinition("c", "int"), ColumnDefinition("c", "bigint"), True),
        (ColumnDefinition("c", "bigint"), ColumnDefinition("c", "int"), False),
        (ColumnDefinition("c", "varchar", length=10), ColumnDefinition("c", "varchar", length=-1), True),
        (ColumnDefinition("c", "varchar", length=20), ColumnDefinition("c", "varchar", length=10), False),
        (ColumnDefinition("c", "char", length=5), ColumnDefinition("c", "char", length=9), False),
        (ColumnDefinition("c", "varchar", length=5), ColumnDefinition("c", "nvarchar", length=10), False),
        (ColumnDefinition("c", "binary", length=4), ColumnDefinition("c", "binary", length=8), False),
        (ColumnDefinition("c", "datetime2", scale=3), ColumnDefinition("c", "datetime2", scale=6), True),
        (ColumnDefinition("c", "datetime2", scale=6), ColumnDefinition("c", "datetime2", scale=7), False),
        (ColumnDefinition("c", "datetime"), ColumnDefinition("c", "datetime2", scale=6), False),
        (ColumnDefinition("c", "time", scale=3), ColumnDefinition("c", "time", scale=5), False),
        (ColumnDefinition("c", "decimal", precision=8, scale=2), ColumnDefinition("c", "decimal", precision=9, scale=2),
         True),
        (ColumnDefinition("c", "decimal", precision=8, scale=2), ColumnDefinition("c", "decimal", precision=9, scale=3),
         False),
        (ColumnDefinition("c", "real"), ColumnDefinition("c", "float"), True),
    ],
)  # fmt: skip
def test_a_column_whose_values_an_alteration_may_change_is_read_again(
    before: ColumnDefinition, after: ColumnDefinition, *, stays: bool
) -> None:
    assert keeps_values(column_of(before, TABLE), column_of(after, TABLE)) is stays
