"""What histories for SQL Server are made of."""

from __future__ import annotations

from testing.workload.model import Grammar, SchemaDraft
from testing.workload.rng_literals import Pen
from testing.workload.schemas import Statements
from testing.workload.sqlserver.alterations import ALTERATIONS, SOFT
from testing.workload.sqlserver.changes import OPERATIONS, RARE
from testing.workload.sqlserver.keys import STYLES
from testing.workload.sqlserver.kinds import SqlServerKind
from testing.workload.sqlserver.schemas import SchemaMaker
from testing.workload.sqlserver.tables import TABLES
from testing.workload.workload import PostgresSession

SETTINGS = {
    "TRANSACTION ISOLATION LEVEL": ("READ COMMITTED", "READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"),
    "XACT_ABORT": ("ON", "OFF"),
    "DEADLOCK_PRIORITY": ("NORMAL", "LOW"),
}


def sessions(pen: Pen, writers: tuple[int, int]) -> tuple[PostgresSession, ...]:
    """Draw the writers' sessions; `writers`: their least and greatest number."""
    return tuple(
        PostgresSession("UTC", "UTF8", tuple((name, pen.choice(values)) for name, values in SETTINGS.items()))
        for _ in range(pen.randint(*writers))
    )


def _refused(_draft: SchemaDraft) -> Statements:
    return ()


def _whole(_draft: SchemaDraft, statements: Statements, _name: str) -> Statements:
    """SQL Server's transactions in two phases are the coordinator's, not a session's: an ordinary one."""
    return ("BEGIN", *statements, "COMMIT")


def grammar() -> Grammar:
    """What SQL Server 2022 knows."""
    return Grammar(
        dialect="sqlserver",
        maker=lambda pen, zero: SchemaMaker(pen, zero=zero),
        styles=STYLES,
        unique="UNIQUE",
        integer=SqlServerKind("int"),
        word=SqlServerKind("nvarchar", 20),
        wide=("UTF8",),
        sessions=sessions,
        refused=_refused,
        prepared=_whole,
        changes=OPERATIONS,
        rare=RARE,
        sequences={},
        alterations=ALTERATIONS,
        soft=SOFT,
        tables=TABLES,
        partitions=SOFT,
        surroundings=SOFT,
        transactional=True,
    )
