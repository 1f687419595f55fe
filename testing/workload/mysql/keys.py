"""Key styles of MySQL and MariaDB."""

from __future__ import annotations

from testing.workload import kinds
from testing.workload.keys import KeyPart
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.rng_literals import plain

REPEATS = 7
_INT, _CI = MySQLKind("int"), "utf8mb4_general_ci"
# Rows with the same first column, and keys that are equal under the collation though they are spelled otherwise.
STYLES: dict[str, tuple[KeyPart, ...]] = {
    "auto": (KeyPart(_INT, extra="AUTO_INCREMENT"),),
    "auto unsigned": (KeyPart(MySQLKind("bigint", unsigned=True), extra="AUTO_INCREMENT"),),
    "int": (KeyPart(_INT),),
    "mediumint": (KeyPart(MySQLKind("mediumint")),),
    "negative": (KeyPart(MySQLKind("bigint"), "negative"),),
    "top": (KeyPart(MySQLKind("bigint", unsigned=True), "top"),),
    "repeating": (KeyPart(_INT, "repeat"), KeyPart(_INT)),
    "repeating date": (KeyPart(MySQLKind("date"), "day"), KeyPart(MySQLKind("smallint"), "repeat"), KeyPart(_INT)),
    "enum first": (KeyPart(MySQLKind("enum", collation=_CI, labels=("b", "A", "c", "a b")), "label"), KeyPart(_INT)),
    "text first": (KeyPart(MySQLKind("varchar", 20, collation=_CI), "letter"), KeyPart(_INT)),
    "text ci": (KeyPart(MySQLKind("varchar", 40, collation="utf8mb4_unicode_ci"), "text"),),
    "text bin": (KeyPart(MySQLKind("varchar", 40, collation="utf8mb4_bin"), "text"),),
    "text latin1": (KeyPart(MySQLKind("varchar", 30, collation="latin1_swedish_ci"), "text"),),
    "text utf16": (KeyPart(MySQLKind("varchar", 30, collation="utf16_general_ci"), "text"),),
    "text sjis": (KeyPart(MySQLKind("varchar", 30, collation="sjis_japanese_ci"), "text"),),
    "char": (KeyPart(MySQLKind("char", 30, collation=_CI), "text"),),
    "prefix": (KeyPart(MySQLKind("text", collation=_CI), "text"),),
    "binary": (KeyPart(MySQLKind("binary", 6), "hex"),),
    "varbinary": (KeyPart(MySQLKind("varbinary", 8), "hex"),),
    "datetime": (KeyPart(MySQLKind("datetime", 6), "moment"),),
    "timestamp": (KeyPart(MySQLKind("timestamp"), "instant"),),
    "time": (KeyPart(MySQLKind("time"), "clock"),),
    "decimal": (KeyPart(MySQLKind("decimal", 20, 4), "quarter"),),
    "decimal wide": (KeyPart(MySQLKind("decimal", 50, 10), "quarter"),),
    "double": (KeyPart(MySQLKind("double"), "quarter"),),
    "bit": (KeyPart(MySQLKind("bit", 40)),),
    "none": (),
    "none ": (),
}
MARIADB_STYLES = {
    "uuid": (KeyPart(MySQLKind("uuid"), "uuid"),),
    "inet6": (KeyPart(MySQLKind("inet6"), "address"),),
    "text nopad": (KeyPart(MySQLKind("varchar", 40, collation="utf8mb4_nopad_bin"), "text"),),
}
MYSQL_STYLES = {"text 0900": (KeyPart(MySQLKind("varchar", 40, collation="utf8mb4_0900_ai_ci"), "text"),)}


def styles(dialect: str) -> dict[str, tuple[KeyPart, ...]]:
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


def numbered(style: str, number: str, kind: kinds.ValueKind) -> str:
    """Row `number`'s value, as SQL; `number` is an SQL expression."""
    if style == "label":
        return f"ELT(1 + ({number}) % {len(kind.labels)}, {', '.join(plain(label) for label in kind.labels)})"
    return _NUMBERED[style].replace("{}", number)
