"""Key styles of MySQL and MariaDB."""

from __future__ import annotations

from testing.workload import kinds
from testing.workload.keys import Part
from testing.workload.mysql.kinds import Kind
from testing.workload.rng_literals import plain

REPEATS = 7
_INT, _CI = Kind("int"), "utf8mb4_general_ci"
# Rows with the same first column, and keys that are equal under the collation though they are spelled otherwise.
STYLES: dict[str, tuple[Part, ...]] = {
    "auto": (Part(_INT, extra="AUTO_INCREMENT"),),
    "auto unsigned": (Part(Kind("bigint", unsigned=True), extra="AUTO_INCREMENT"),),
    "int": (Part(_INT),),
    "mediumint": (Part(Kind("mediumint")),),
    "negative": (Part(Kind("bigint"), "negative"),),
    "top": (Part(Kind("bigint", unsigned=True), "top"),),
    "repeating": (Part(_INT, "repeat"), Part(_INT)),
    "repeating date": (Part(Kind("date"), "day"), Part(Kind("smallint"), "repeat"), Part(_INT)),
    "enum first": (Part(Kind("enum", collation=_CI, labels=("b", "A", "c", "a b")), "label"), Part(_INT)),
    "text first": (Part(Kind("varchar", 20, collation=_CI), "letter"), Part(_INT)),
    "text ci": (Part(Kind("varchar", 40, collation="utf8mb4_unicode_ci"), "text"),),
    "text bin": (Part(Kind("varchar", 40, collation="utf8mb4_bin"), "text"),),
    "text latin1": (Part(Kind("varchar", 30, collation="latin1_swedish_ci"), "text"),),
    "text utf16": (Part(Kind("varchar", 30, collation="utf16_general_ci"), "text"),),
    "text sjis": (Part(Kind("varchar", 30, collation="sjis_japanese_ci"), "text"),),
    "char": (Part(Kind("char", 30, collation=_CI), "text"),),
    "prefix": (Part(Kind("text", collation=_CI), "text"),),
    "binary": (Part(Kind("binary", 6), "hex"),),
    "varbinary": (Part(Kind("varbinary", 8), "hex"),),
    "datetime": (Part(Kind("datetime", 6), "moment"),),
    "timestamp": (Part(Kind("timestamp"), "instant"),),
    "time": (Part(Kind("time"), "clock"),),
    "decimal": (Part(Kind("decimal", 20, 4), "quarter"),),
    "decimal wide": (Part(Kind("decimal", 50, 10), "quarter"),),
    "double": (Part(Kind("double"), "quarter"),),
    "bit": (Part(Kind("bit", 40)),),
    "none": (),
    "none ": (),
}
MARIADB_STYLES = {
    "uuid": (Part(Kind("uuid"), "uuid"),),
    "inet6": (Part(Kind("inet6"), "address"),),
    "text nopad": (Part(Kind("varchar", 40, collation="utf8mb4_nopad_bin"), "text"),),
}
MYSQL_STYLES = {"text 0900": (Part(Kind("varchar", 40, collation="utf8mb4_0900_ai_ci"), "text"),)}


def styles(dialect: str) -> dict[str, tuple[Part, ...]]:
    """All of the dialect's."""
    return STYLES | (MARIADB_STYLES if dialect == "mariadb" else MYSQL_STYLES)


_NUMBERED = {
    "plain": "{}",
    "negative": "-({})",
    "top": "18446744073700000000 + ({})",
    "repeat": f"({{}}) % {REPEATS}",
    "few": "({}) % 9",
    "parent": "1 + ({}) % 40",
    "day": "DATE '2020-02-25' + INTERVAL (({}) % 9) DAY",
    "letter": "ELT(1 + ({}) % 5, 'a', 'B', 'c', 'Cc', 'z')",
    "text": "CONCAT('Key ', {})",
    "hex": "UNHEX(LPAD(HEX({}), 8, '0'))",
    "moment": "TIMESTAMP '2024-01-01 00:00:00.000001' + INTERVAL ({}) SECOND",
    "instant": "FROM_UNIXTIME(1700000000 + ({}))",
    "clock": "SEC_TO_TIME(({}) - 50)",
    "quarter": "({}) * 0.25",
    "uuid": "CONCAT('00000000-0000-0000-0000-', LPAD(HEX({}), 12, '0'))",
    "address": "CONCAT('2001:db8::', HEX(({}) DIV 65536), ':', HEX(({}) % 65536))",
}


def numbered(style: str, number: str, kind: kinds.Kind) -> str:
    """Row `number`'s value, as SQL; `number` is an SQL expression."""
    if style == "label":
        return f"ELT(1 + ({number}) % {len(kind.labels)}, {', '.join(plain(label) for label in kind.labels)})"
    return _NUMBERED[style].replace("{}", number)
