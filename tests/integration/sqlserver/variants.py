"""Values of a sql_variant, of each base type, and the text that each becomes.

Base types: learn.microsoft.com/sql/t-sql/data-types/sql-variant-transact-sql; texts: the styles of
learn.microsoft.com/sql/t-sql/functions/cast-and-convert-transact-sql.
"""

from __future__ import annotations

from tests.contract.sqlserver import SqlServerPlace

VARIANTS = (
    ("CAST(1 AS bit)", "1"), ("CAST(255 AS tinyint)", "255"), ("CAST(-32768 AS smallint)", "-32768"),
    ("CAST(-2147483648 AS int)", "-2147483648"), ("CAST(-9223372036854775808 AS bigint)", "-9223372036854775808"),
    ("CAST(-1234567890123456789012345678.0123456789 AS decimal(38,10))", "-1234567890123456789012345678.0123456789"),
    ("CAST(1.50 AS numeric(9,2))", "1.50"), ("CAST(-922337203685477.5808 AS money)", "-922337203685477.5808"),
    ("CAST(214748.3647 AS smallmoney)", "214748.3647"), ("CAST(-0.1 AS float)", "-1.0000000000000001e-001"),
    ("CAST(5e-324 AS float)", "4.9406564584124654e-324"), ("CAST(0.1 AS real)", "1.0000000149011612e-001"),
    ("CAST('0001-01-01' AS date)", "0001-01-01"), ("CAST('23:59:59.9999999' AS time(7))", "23:59:59.9999999"),
    ("CAST('1753-01-01 00:00:00.007' AS datetime)", "1753-01-01 00:00:00.007"),
    ("CAST('2026-01-02 03:04' AS smalldatetime)", "2026-01-02 03:04:00.000"),
    ("CAST('9999-12-31 23:59:59.9999999' AS datetime2(7))", "9999-12-31 23:59:59.9999999"),
    ("CAST('2026-01-02 03:04:05.1234567 -05:30' AS datetimeoffset(7))", "2026-01-02 03:04:05.1234567 -05:30"),
    ("CAST('6F9619FF-8B86-D011-B42D-00C04FC964FF' AS uniqueidentifier)", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    ("CAST('ab' AS char(5))", "ab   "), ("CAST(N'\u00dcn\u00ef' AS varchar(20))", "\u00dcn\u00ef"),
    ("CAST(N'\u0436' AS nchar(3))", "\u0436  "), ("N'\U0001f600 \u4e2d'", "\U0001f600 \u4e2d"), ("N''", ""),
    ("CAST(REPLICATE('x', 8000) AS varchar(8000))", "x" * 8000), ("CAST(0x01 AS binary(4))", "0x01000000"),
    ("CAST(0x00FF AS varbinary(8000))", "0x00FF"), ("CAST(0x AS varbinary(4))", "0x"),
)  # fmt: skip


def insert_variants(place: SqlServerPlace, column: str, first: int) -> None:
    """A row of each into the table `t`, under keys from `first` on; char and varchar as they are written."""
    for at, (value, _) in enumerate(VARIANTS, first):
        place.session.run(f"INSERT INTO {place.name}.t (id, {column}) VALUES ({at}, {value})", place.name)
