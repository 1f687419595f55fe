"""Key styles of SQL Server."""

from __future__ import annotations

from testing.workload import kinds
from testing.workload.keys import KeyPart
from testing.workload.sqlserver.kinds import SqlServerKind

REPEATS = 7
_INT, _BIG = SqlServerKind("int"), SqlServerKind("bigint")
# Rows with the same first column, and keys that are equal to the server though their text differs.
STYLES: dict[str, tuple[KeyPart, ...]] = {
    "int": (KeyPart(_INT),),
    "int ": (KeyPart(_INT),),
    "int  ": (KeyPart(_INT),),
    "small": (KeyPart(SqlServerKind("smallint")),),
    "negative": (KeyPart(_BIG, "negative"),),
    "top": (KeyPart(_BIG, "top"),),
    "repeating": (KeyPart(_INT, "repeat"), KeyPart(_INT)),
    "repeating date": (
        KeyPart(SqlServerKind("date"), "day"),
        KeyPart(SqlServerKind("tinyint"), "repeat"),
        KeyPart(_INT),
    ),
    "bit first": (KeyPart(SqlServerKind("bit"), "even"), KeyPart(_INT)),
    "text first": (KeyPart(SqlServerKind("nvarchar", 20), "letter"), KeyPart(_INT)),
    "text": (KeyPart(SqlServerKind("nvarchar", 40), "text"),),
    "text narrow": (KeyPart(SqlServerKind("varchar", 40), "text"),),
    "text by case": (KeyPart(SqlServerKind("nvarchar", 40, collation="Latin1_General_CS_AS"), "text"),),
    "text by bytes": (KeyPart(SqlServerKind("varchar", 40, collation="Latin1_General_BIN2"), "text"),),
    "char": (KeyPart(SqlServerKind("char", 30), "text"),),
    "binary": (KeyPart(SqlServerKind("binary", 4), "hex"),),
    "datetime2": (KeyPart(SqlServerKind("datetime2", 7), "moment"),),
    "datetime": (KeyPart(SqlServerKind("datetime"), "second"),),
    "datetimeoffset": (KeyPart(SqlServerKind("datetimeoffset", 3), "offset"),),
    "decimal": (KeyPart(SqlServerKind("decimal", 20, 4), "quarter"),),
    "money": (KeyPart(SqlServerKind("money"), "quarter"),),
    "float": (KeyPart(SqlServerKind("float"), "half"),),
    "guid": (KeyPart(SqlServerKind("uniqueidentifier"), "guid"),),
    "none": (),
    "none ": (),
    "none  ": (),
}
_NUMBERED = {
    "plain": "{}",
    "negative": "-({})",
    "top": "9223372036850000000 + ({})",
    "repeat": f"({{}}) % {REPEATS}",
    "even": "CAST(({}) % 2 AS bit)",
    "parent": "1 + ({}) % 40",
    "day": "DATEADD(day, ({}) % 9, CAST('2020-02-25' AS date))",
    "letter": "SUBSTRING(N'aBcCz', 1 + ({}) % 5, 1)",
    "text": "CONCAT(N'Key ', {})",
    "hex": "CAST(CAST({} AS int) AS binary(4))",
    "moment": "DATEADD(second, {}, CAST('2024-01-01 00:00:00.0000001' AS datetime2(7)))",
    "second": "CAST(DATEADD(second, {}, CAST('2024-01-01' AS datetime2(0))) AS datetime)",
    "offset": "TODATETIMEOFFSET(DATEADD(second, {}, CAST('2024-01-01' AS datetime2(3))), '+05:30')",
    "quarter": "({}) * 0.25",
    "half": "CAST({} AS float) / 2",
    "guid": "CAST(CONCAT('00000000-0000-0000-0000-', RIGHT(CONCAT('000000000000', {}), 12)) AS uniqueidentifier)",
}


def numbered(style: str, number: str, _kind: kinds.ValueKind) -> str:
    """Row `number`'s value, as SQL; `number` is an SQL expression."""
    return _NUMBERED[style].replace("{}", number)
