"""What histories for MySQL and MariaDB are made of."""

from __future__ import annotations

from testing.workload.model import Grammar
from testing.workload.mysql.alterations import ALTERATIONS, SOFT
from testing.workload.mysql.changes import OPERATIONS, RARE
from testing.workload.mysql.decoy_objects import SEQUENCES, SURROUNDINGS, decided, prelude, prepared, refused
from testing.workload.mysql.forms import in_all_forms
from testing.workload.mysql.keys import styles
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.mysql.partitions import PARTITIONS
from testing.workload.mysql.schemas import SchemaMaker
from testing.workload.mysql.tables import TABLES
from testing.workload.rng_literals import Pen
from testing.workload.workload import Dialect, Session

TIME_ZONES = ("+00:00", "+05:30", "-11:00", "+13:00", "-03:30", "SYSTEM")
CHARSETS = ("utf8mb4", "utf8mb4", "utf8mb4", "utf8mb3", "latin1", "cp1251", "gbk", "sjis", "koi8r")
STRICT = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
SQL_MODES = (
    STRICT, STRICT, STRICT, "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "",
    "ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_TRANS_TABLES",
    "NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES", "NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,IGNORE_SPACE",
    "PAD_CHAR_TO_FULL_LENGTH,STRICT_TRANS_TABLES", "ALLOW_INVALID_DATES",
)  # fmt: skip
MARIADB_MODES = (
    "EMPTY_STRING_IS_NULL,STRICT_TRANS_TABLES",
    "SIMULTANEOUS_ASSIGNMENT,STRICT_TRANS_TABLES",
    "TIME_ROUND_FRACTIONAL",
)


def grammar(dialect: Dialect) -> Grammar:
    """What "mysql" has, 8.0.12 and later, or "mariadb"."""

    def sessions(pen: Pen, writers: tuple[int, int]) -> tuple[Session, ...]:
        modes = SQL_MODES if dialect == "mysql" else (*SQL_MODES, *MARIADB_MODES)
        charsets = CHARSETS if pen.chance(0.5) else ("utf8mb4",)
        return tuple(
            Session(pen.choice(TIME_ZONES), pen.choice(charsets), pen.choice(modes))
            for _ in range(pen.randint(*writers))
        )

    return Grammar(
        dialect=dialect,
        maker=lambda pen, zero: SchemaMaker(pen, dialect, zero=zero),
        styles=styles(dialect),
        unique="UNIQUE KEY",
        integer=MySQLKind("int"),
        word=MySQLKind("varchar", 20, collation="utf8mb4_general_ci"),
        wide=("utf8mb4", "utf8mb3"),
        sessions=sessions,
        refused=refused,
        prepared=prepared,
        decided=decided,
        changes=OPERATIONS,
        rare=RARE,
        sequences=SEQUENCES,
        alterations=in_all_forms(ALTERATIONS),
        soft=in_all_forms(SOFT),
        tables=in_all_forms(TABLES),
        partitions=in_all_forms(PARTITIONS),
        surroundings=SURROUNDINGS,
        prelude=prelude,
    )
