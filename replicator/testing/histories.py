"""`generate(seed)`: a random history of SQL over random tables.  The same seed and size, the same history."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replicator.testing.alterations import ALTERATIONS, SOFT
from replicator.testing.changes import OPERATIONS, RARE, bulk, inserted
from replicator.testing.draft import Draft, Statements, pick
from replicator.testing.keys import KeyModel
from replicator.testing.kinds import Kind
from replicator.testing.literals import Pen, quoted
from replicator.testing.partitions import PARTITIONS
from replicator.testing.schemas import ColumnModel, TableModel
from replicator.testing.surroundings import SURROUNDINGS, next_value, prepared
from replicator.testing.tables import TABLES
from replicator.testing.workload import Dialect, History, How, Phase, Session, Step

Range = tuple[int, int]
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """Each from–to: tables and their first rows, phases, steps of a phase (all writers), writers; `huge`: a transaction of 1,000,000 rows."""

    tables: Range = (1, 4)
    rows: Range = (0, 400)
    phases: Range = (3, 8)
    steps: Range = (5, 60)
    writers: Range = (1, 4)
    huge: bool = False


SMALL = Size(phases=(3, 6), steps=(5, 40))
MEDIUM = Size(tables=(2, 5), rows=(0, 1500), phases=(4, 8), steps=(40, 150))
HUGE = Size(huge=True)

TIME_ZONES = ("+00:00", "+05:30", "-11:00", "+13:00", "-03:30", "SYSTEM")
CHARSETS = ("utf8mb4", "utf8mb4", "utf8mb4", "utf8mb3", "latin1", "cp1251", "gbk", "sjis", "koi8r")
STRICT = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
SQL_MODES = (
    STRICT, STRICT, STRICT, "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE", "", "ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_TRANS_TABLES",
    "NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES", "NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES,IGNORE_SPACE",
    "PAD_CHAR_TO_FULL_LENGTH,STRICT_TRANS_TABLES", "ALLOW_INVALID_DATES",
)  # fmt: skip
MARIADB_MODES = (
    "EMPTY_STRING_IS_NULL,STRICT_TRANS_TABLES",
    "SIMULTANEOUS_ASSIGNMENT,STRICT_TRANS_TABLES",
    "TIME_ROUND_FRACTIONAL",
)


def generate(seed: int, dialect: Dialect = "mariadb", size: Size = SMALL) -> History:
    """A history for the dialect ("mysql": 8.0.12 and later)."""
    return Maker(seed, dialect, size).history()


class Maker:
    """`draft.used` tells afterwards which operations and types occur."""

    def __init__(self, seed: int, dialect: Dialect, size: Size) -> None:
        self.seed, self.dialect, self.size = seed, dialect, size
        self.pen = Pen(seed)
        self.sessions = self._sessions()
        # every name must be one that every session can spell
        charsets = {session.charset for session in self.sessions}
        self.pen.charset = "utf8mb4" if charsets <= {"utf8mb4", "utf8mb3"} else "ascii"
        self.draft = Draft(self.pen, dialect, zero=self.pen.chance(0.15))
        self._names_charset = self.pen.charset
        self._xa = self.pen.chance(0.15)

    def history(self) -> History:
        """The history."""
        setup = [statement for _ in range(self._drawn(self.size.tables)) for statement in self._table()]
        if self.pen.chance(0.15):
            setup += self._family()
        if self.pen.chance(0.3):
            setup += pick(self.draft, SURROUNDINGS, self._any())
        refused = self._refused() if self.pen.chance(0.1) else ()
        phases = [self._phase() for _ in range(self._drawn(self.size.phases))]
        if self.size.huge:
            phases.insert(self.pen.randint(0, len(phases)), self._huge())
        names = tuple(table.name for table in self.draft.tables.values() if table.refused)
        return History(self.seed, self.dialect, self.sessions, (*setup, *refused), tuple(phases), names)

    def _any(self) -> TableModel:
        return self.pen.choice(list(self.draft.tables.values()))

    def _drawn(self, limits: Range) -> int:
        return self.pen.randint(*limits)

    def _sessions(self) -> tuple[Session, ...]:
        pen = self.pen
        modes = SQL_MODES if self.dialect == "mysql" else (*SQL_MODES, *MARIADB_MODES)
        anywhere = pen.chance(0.5)
        charsets = CHARSETS if anywhere else ("utf8mb4",)
        return tuple(
            Session(pen.choice(TIME_ZONES), pen.choice(charsets), pen.choice(modes))
            for _ in range(self._drawn(self.size.writers))
        )

    # Tables

    def _table(self) -> Statements:
        table = self.draft.table()
        self.draft.keep(table)
        return (table.created(), *self._rows(table))

    def _rows(self, table: TableModel) -> Statements:
        rows = self._drawn(self.size.rows)
        if not rows:
            return ()
        few = min(rows, 25)
        statements = (inserted(self.draft, table, few),)
        return statements if rows == few else (*statements, bulk(self.draft, self.draft.tables[table.name], rows - few))

    def _family(self) -> Statements:
        """Parent and child with a cascading foreign key."""
        pen, draft = self.pen, self.draft
        key = KeyModel("int", (draft.maker.name("id", odd=0),))
        number = ColumnModel(key.columns[0], Kind("int"), nullable=False, number="plain")
        parent = TableModel(
            draft.maker.name("parent"), (number, draft.maker.column(), draft.maker.column()), key, fixed=True
        )
        reference = ColumnModel(draft.maker.name("parent", odd=0), Kind("int"), number="parent")
        child_key = KeyModel("int", (draft.maker.name("id", odd=0),))
        child_number = replace(number, name=child_key.columns[0])
        action = pen.choice(("CASCADE", "CASCADE", "SET NULL"))
        constraint = (
            f"FOREIGN KEY ({quoted(reference.name)}) REFERENCES {parent.sql} ({quoted(number.name)}) "
            f"ON DELETE {action} ON UPDATE CASCADE"
        )
        columns = (child_number, reference, draft.maker.column(), draft.maker.column())
        child = TableModel(draft.maker.name("child"), columns, child_key, constraints=(constraint,), fixed=True)
        draft.keep(parent)
        draft.keep(child)
        draft.used["foreign key"] += 1
        rows = pen.randint(40, 80)
        return (
            parent.created(), child.created(), bulk(draft, parent, rows), bulk(draft, child, rows),
        )  # fmt: skip

    def _refused(self) -> Statements:
        """A table that a replicator must refuse, alone."""
        draft, pen = self.draft, self.pen
        draft.used["refused table"] += 1
        name = draft.maker.name("refused", odd=0)
        columns = (
            ColumnModel("id", Kind("int"), nullable=False, number="plain"),
            ColumnModel("c", Kind("varchar", 20, collation="eucjpms_bin")),
        )
        table = TableModel(name, columns, KeyModel("int", ("id",)), fixed=True, refused=True)
        if self.dialect == "mariadb" and pen.chance(0.6):
            year = ColumnModel("c", Kind("year", 2))
            table = replace(table, columns=(columns[0], year))
            if pen.chance(0.5):
                number = ColumnModel("c", Kind("int"))
                table = replace(table, columns=(columns[0], number), options=" WITH SYSTEM VERSIONING")
        draft.keep(table)
        return (table.created(), bulk(draft, table, 20))

    # Phases

    def _phase(self) -> Phase:
        pen = self.pen
        shaping = pen.choice((0.0, 0.05, 0.15, 0.35))
        steps = [self._step(pen.randrange(len(self.sessions)), shaping) for _ in range(self._drawn(self.size.steps))]
        return Phase(tuple(step for step in steps if step.statements))

    def _step(self, writer: int, shaping: float) -> Step:
        pen, table = self.pen, self._any()
        if pen.chance(shaping) and not table.refused and (statements := self._shaped(table)):
            if pen.chance(0.9):
                return Step(writer, statements, "autocommit")
            self.draft.used["ddl in a transaction"] += 1  # it commits what is before it
            return Step(writer, (*self._changed(self._any()), *statements, *self._changed(self._any())), "commit")
        pen.charset = self.sessions[writer].charset
        try:
            return self._changes(writer)
        finally:
            pen.charset = self._names_charset

    def _shaped(self, table: TableModel) -> Statements:
        pen = self.pen
        if table.fixed:
            return pick(self.draft, SOFT, table)
        if pen.chance(0.45 if table.bounds else 0.05):
            return pick(self.draft, PARTITIONS, table)
        if pen.chance(0.04):
            return pick(self.draft, SURROUNDINGS, table)
        return pick(self.draft, ALTERATIONS if pen.chance(0.65) else TABLES, table)

    def _changed(self, table: TableModel) -> Statements:
        pen = self.pen
        if self.draft.sequences and pen.chance(0.1):
            return pick(self.draft, {"next value": (1, next_value)}, table)
        return pick(self.draft, RARE if pen.chance(0.005) else OPERATIONS, table)

    def _changes(self, writer: int) -> Step:
        """One operation by itself, or a transaction of some, over some tables."""
        pen, table = self.pen, self._any()
        if pen.chance(0.4):
            return Step(writer, self._changed(table), "autocommit")
        statements: list[str] = []
        for at in range(pen.randint(1, 6)):
            table = self._any() if pen.chance(0.4) else self.draft.tables[table.name]
            changed = self._changed(table)
            statements += self._saved(changed, f"s{at}") if pen.chance(0.08) else changed
        if self._xa and pen.chance(0.15):
            xid = f"{self.seed}.{self.draft.used['xa']}"
            return Step(writer, prepared(self.draft, tuple(statements), xid), "autocommit")
        how: How = "rollback" if pen.chance(0.08) else "commit"
        self.draft.used[how] += 1
        return Step(writer, tuple(statements), how, pen.choice((0.0, 0.0, 0.0, 0.01, 0.05)))

    def _saved(self, statements: Statements, name: str) -> Statements:
        """After a savepoint, to which the transaction mostly goes back."""
        if self.pen.chance(0.3):
            return (f"SAVEPOINT {name}", *statements, f"RELEASE SAVEPOINT {name}")
        self.draft.used["savepoint rolled back"] += 1
        return (f"SAVEPOINT {name}", *statements, f"ROLLBACK TO SAVEPOINT {name}")

    def _huge(self) -> Phase:
        """One transaction of a million rows."""
        draft = self.draft
        key = KeyModel("int", (draft.maker.name("id", odd=0),))
        columns = (
            ColumnModel(key.columns[0], Kind("int"), nullable=False, number="plain"),
            ColumnModel(draft.maker.name("c"), Kind("varchar", 20, collation="utf8mb4_general_ci")),
        )
        table = TableModel(draft.maker.name("huge"), columns, key)
        draft.keep(table)
        filling = (bulk(draft, table, MILLION), inserted(draft, draft.tables[table.name], 1))
        draft.used["huge"] += 1
        return Phase((Step(0, (table.created(),), "autocommit"), Step(0, filling, "commit")))
