"""What histories for Oracle are made of."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.changes import bulk
from testing.workload.keys import KeyModel
from testing.workload.model import Grammar, Operation, SchemaDraft
from testing.workload.oracle.alterations import ALTERATIONS, SOFT, TABLES
from testing.workload.oracle.changes import OPERATIONS, RARE
from testing.workload.oracle.keys import STYLES
from testing.workload.oracle.kinds import OracleKind
from testing.workload.oracle.schemas import SchemaMaker, quoted
from testing.workload.rng_literals import Pen
from testing.workload.schemas import ColumnModel, Statements, TableModel
from testing.workload.workload import OracleSession

CHARSET = "UTF8"
ZONES = ("+00:00", "+05:30", "-08:00", "+14:00")


def sessions(pen: Pen, writers: tuple[int, int]) -> tuple[OracleSession, ...]:
    """Draw the writers' sessions; `writers`: their least and greatest number."""
    return tuple(OracleSession(pen.choice(ZONES), CHARSET) for _ in range(pen.randint(*writers)))


def refused(draft: SchemaDraft) -> Statements:
    """A table that a replicator must refuse, alone: with a LONG."""
    draft.used["refused table"] += 1
    name = draft.maker.name("refused", odd=0)
    columns = (
        ColumnModel("ID", OracleKind("NUMBER", 9, 0), nullable=False, number="plain"),
        ColumnModel("C", OracleKind("LONG")),
    )
    table = replace(draft.maker.model(name, columns, KeyModel("int", ("ID",))), fixed=True, refused=True)
    draft.keep(table)
    return (*table.created(), bulk(draft, table, 20))


def _sequence(draft: SchemaDraft, _table: TableModel) -> Statements:
    name = draft.maker.name("sequence", odd=0.2)
    draft.sequences.append(name)
    return (f"CREATE SEQUENCE {quoted(name)} CACHE 20",)


def _next_value(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    if not draft.sequences:
        return None
    return (f"SELECT {quoted(draft.pen.choice(draft.sequences))}.NEXTVAL FROM dual",)


def _switch(_draft: SchemaDraft, _table: TableModel) -> Statements:
    """The log goes on in another file."""
    return ("ALTER SYSTEM SWITCH LOGFILE",)


SURROUNDINGS: dict[str, tuple[int, Operation]] = {"sequence": (2, _sequence), "log switch": (4, _switch)}
SEQUENCES: dict[str, tuple[int, Operation]] = {"next value": (1, _next_value)}


def grammar() -> Grammar:
    """Of Oracle 19c."""
    return Grammar(
        dialect="oracle",
        maker=lambda pen, zero: SchemaMaker(pen, "oracle", zero=zero),
        styles=STYLES,
        unique="UNIQUE",
        integer=OracleKind("NUMBER", 9, 0),
        word=OracleKind("VARCHAR2", 20, by_char=True),
        wide=(CHARSET,),
        sessions=sessions,
        refused=refused,
        prepared=lambda _, statements, __: statements,
        changes=OPERATIONS,
        rare=RARE,
        sequences=SEQUENCES,
        alterations=ALTERATIONS,
        soft=SOFT,
        tables=TABLES,
        partitions=ALTERATIONS,
        surroundings=SURROUNDINGS,
        releases=False,
        two_phases=False,
        update_rule="",
    )
