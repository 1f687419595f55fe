"""What histories for Postgres are made of."""

from __future__ import annotations

from testing.workload.model import Grammar
from testing.workload.postgres.alterations import ALTERATIONS, SOFT
from testing.workload.postgres.changes import OPERATIONS, RARE
from testing.workload.postgres.decoy_objects import SEQUENCES, SURROUNDINGS, prelude, prepared, refused
from testing.workload.postgres.keys import STYLES
from testing.workload.postgres.partitions import PARTITIONS
from testing.workload.postgres.schemas import SchemaMaker
from testing.workload.postgres.tables import TABLES
from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.rng_literals import Pen
from testing.workload.workload import PostgresSession

OLDEST, NEWEST = 13, 17
TIME_ZONES = ("UTC", "Asia/Kolkata", "America/New_York", "Pacific/Kiritimati", "-03:30", "Europe/Lisbon")
CHARSETS = ("UTF8", "UTF8", "UTF8", "LATIN1", "WIN1251", "KOI8R", "SJIS", "EUC_JP")
SETTINGS = {
    "DateStyle": ("ISO, MDY", "SQL, DMY", "German, YMD", "Postgres, MDY"),
    "IntervalStyle": ("postgres", "postgres_verbose", "iso_8601", "sql_standard"),
    "extra_float_digits": ("1", "0", "-5", "3"),
    "bytea_output": ("hex", "escape"),
    "default_transaction_isolation": ("read committed", "read committed", "repeatable read", "serializable"),
    "synchronous_commit": ("on", "off"),
    "xmlbinary": ("base64", "hex"),
}


def sessions(pen: Pen, writers: tuple[int, int]) -> tuple[PostgresSession, ...]:
    """Draw the writers' sessions; `writers`: their least and greatest number."""
    charsets = CHARSETS if pen.chance(0.5) else ("UTF8",)
    return tuple(
        PostgresSession(
            pen.choice(TIME_ZONES),
            pen.choice(charsets),
            tuple((name, pen.choice(values)) for name, values in SETTINGS.items()),
        )
        for _ in range(pen.randint(*writers))
    )


def grammar(version: int | None = None) -> Grammar:
    """What the server of that version knows; by default 17."""
    known = version or NEWEST
    return Grammar(
        dialect="postgres",
        maker=lambda pen, zero: SchemaMaker(pen, known, zero=zero),
        styles=STYLES,
        unique="UNIQUE",
        integer=PostgresKind("integer"),
        word=PostgresKind("varchar", 20),
        wide=("UTF8",),
        sessions=sessions,
        refused=refused,
        prepared=prepared,
        changes=OPERATIONS,
        rare=RARE,
        sequences=SEQUENCES,
        alterations=ALTERATIONS,
        soft=SOFT,
        tables=TABLES,
        partitions=PARTITIONS,
        surroundings=SURROUNDINGS,
        prelude=prelude,
        transactional=True,
    )
