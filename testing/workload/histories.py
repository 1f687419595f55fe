"""`generate(seed)`: a random history of SQL over random tables.  The same seed and size, the same history."""

from __future__ import annotations

from dataclasses import dataclass, replace

from testing.workload.changes import bulk, inserted
from testing.workload.dialects import grammar
from testing.workload.keys import KeyModel
from testing.workload.model import Alone, SchemaDraft, Whole, pick
from testing.workload.mysql.spelling import respelled
from testing.workload.rng_literals import Pen
from testing.workload.schemas import ColumnModel, Statements, TableModel
from testing.workload.workload import Dialect, History, How, Phase, Step

Range = tuple[int, int]
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """Each from–to: tables and their first rows, phases, steps of a phase (all writers), writers; `huge`: a transaction
    of 1,000,000 rows.
    """

    tables: Range = (1, 4)
    rows: Range = (0, 400)
    phases: Range = (3, 8)
    steps: Range = (5, 60)
    writers: Range = (1, 4)
    huge: bool = False


SMALL = Size(phases=(3, 6), steps=(5, 40))
MEDIUM = Size(tables=(2, 5), rows=(0, 1500), phases=(4, 8), steps=(40, 150))
HUGE = Size(huge=True)


def generate(
    seed: int,
    dialect: Dialect = "mariadb",
    size: Size = SMALL,
    version: int | None = None,
    *,
    unkilled: bool = False,
    caseless: bool = False,
) -> History:
    """A history for the dialect ("mysql": 8.0.12 and later; "postgres": `version` or later, 13 to 18).

    unkilled: its server is never killed.  caseless: its server compares names without case.
    """
    maker = Maker(seed, dialect, size, version)
    maker.draft.unkilled = unkilled
    history = maker.history()
    return respelled(history, maker.draft.maker.taken) if caseless else history


class Maker:
    """`draft.used` tells afterwards which operations and types occur."""

    def __init__(self, seed: int, dialect: Dialect, size: Size, version: int | None = None) -> None:
        self.seed, self.dialect, self.size = seed, dialect, size
        self.pen, self.grammar = Pen(seed), grammar(dialect, version)
        self.sessions = self.grammar.sessions(self.pen, size.writers)
        # every name must be one that every session can spell
        charsets = {session.charset for session in self.sessions}
        self.pen.charset = self.grammar.wide[0] if charsets <= set(self.grammar.wide) else "ascii"
        self.draft = SchemaDraft(self.pen, self.grammar, zero=self.pen.chance(0.15))
        self._names_charset = self.pen.charset
        self._xa = self.pen.chance(0.15) and self.grammar.two_phases

    def history(self) -> History:
        """The history."""
        setup = list(self.grammar.prelude(self.draft))
        for _ in range(self._drawn(self.size.tables)):
            setup += self._table()
        if self.pen.chance(0.15):
            setup += self._family()
        if self.pen.chance(0.3):
            setup += pick(self.draft, self.grammar.surroundings, self._any())
        refused = self.grammar.refused(self.draft) if self.pen.chance(0.1) else ()
        phases = [self._phase() for _ in range(self._drawn(self.size.phases))]
        if self.size.huge:
            phases.insert(self.pen.randint(0, len(phases)), self._huge())
        names = tuple(table.name for table in self.draft.tables.values() if table.refused)
        return History(self.seed, self.dialect, self.sessions, (*setup, *refused), tuple(phases), names)

    def _any(self) -> TableModel:
        return self.pen.choice(list(self.draft.tables.values()))

    def _drawn(self, limits: Range) -> int:
        return self.pen.randint(*limits)

    # Tables

    def _table(self) -> Statements:
        table = self.draft.table()
        self.draft.keep(table)
        return (*table.created(), *self._rows(table))

    def _rows(self, table: TableModel) -> Statements:
        rows = self._drawn(self.size.rows)
        if not rows:
            return ()
        few = min(rows, 25)
        statements = (inserted(self.draft, table, few),)
        return statements if rows == few else (*statements, bulk(self.draft, self.draft.tables[table.name], rows - few))

    def _family(self, *, altered: bool = False) -> Statements:
        """Parent and child with a cascading foreign key; `altered`: which the child gets last."""
        pen, draft = self.pen, self.draft
        key = KeyModel("int", (draft.maker.name("id", odd=0),))
        number = ColumnModel(key.columns[0], self.grammar.integer, nullable=False, number="plain")
        name = draft.maker.name("parent")
        parent = replace(draft.maker.model(name, (number, draft.maker.column(), draft.maker.column()), key), fixed=True)
        reference = ColumnModel(draft.maker.name("parent", odd=0), self.grammar.integer, number="parent")
        child_key = KeyModel("int", (draft.maker.name("id", odd=0),))
        child_number = replace(number, name=child_key.columns[0])
        action = pen.choice(("CASCADE", "CASCADE", "SET NULL"))
        constraint = (
            f"FOREIGN KEY ({parent.names([reference.name])}) REFERENCES {parent.sql} ({parent.names([number.name])}) "
            f"ON DELETE {action}{self.grammar.update_rule}"
        )
        columns = (child_number, reference, draft.maker.column(), draft.maker.column())
        child = draft.maker.model(draft.maker.name("child"), columns, child_key)
        child = replace(child, constraints=() if altered else (constraint,), fixed=True)
        draft.keep(parent)
        draft.keep(child)
        draft.used["foreign key"] += 1
        rows = pen.randint(40, 80)
        last = (f"ALTER TABLE {child.sql} ADD {constraint}",) if altered else ()
        return (
            *parent.created(), *child.created(), bulk(draft, parent, rows), bulk(draft, child, rows), *last,
        )  # fmt: skip

    # Phases

    def _phase(self) -> Phase:
        pen = self.pen
        shaping = pen.choice((0.0, 0.05, 0.15, 0.35))
        steps = [self._step(pen.randrange(len(self.sessions)), shaping) for _ in range(self._drawn(self.size.steps))]
        return Phase(tuple(step for step in steps if step.statements))

    def _step(self, writer: int, shaping: float) -> Step:
        pen, table = self.pen, self._any()
        if self.draft.left and pen.chance(0.05):
            xid = self.draft.left.pop(pen.randrange(len(self.draft.left)))
            return Step(writer, self.grammar.decided(self.draft, xid), "autocommit")
        if pen.chance(shaping) and not table.refused:
            if self.grammar.transactional and (step := self._reshaped(writer, table)).statements:
                return step
            if not self.grammar.transactional and pen.chance(0.03):
                self.draft.used["foreign key later"] += 1
                return Step(writer, self._family(altered=pen.chance(0.5)), "autocommit")
            if not self.grammar.transactional and (statements := self._shaped(table)):
                if pen.chance(0.9):
                    return Step(writer, statements, "autocommit")
                self.draft.used["ddl in a transaction"] += 1  # it commits what is before it
                return Step(writer, (*self._changed(self._any()), *statements, *self._changed(self._any())), "commit")
        pen.charset = self.sessions[writer].charset
        try:
            return self._changes(writer)
        finally:
            pen.charset = self._names_charset

    def _reshaped(self, writer: int, table: TableModel) -> Step:
        """DDL alone, or in one transaction with changes, which may be rolled back."""
        pen, draft = self.pen, self.draft
        alone = pen.chance(0.5)
        first = () if alone else self._changed(table)
        before = dict(draft.tables)
        statements = self._shaped(draft.tables[table.name])
        if alone or isinstance(statements, Alone) or not statements:
            return Step(writer, tuple(statements), "commit" if isinstance(statements, Whole) else "autocommit")
        draft.used["ddl in a transaction"] += 1
        if pen.chance(0.2):
            draft.used["ddl rolled back"] += 1
            draft.tables = before
            return Step(writer, (*first, *statements), "rollback")
        if pen.chance(0.2):
            draft.used["ddl after a savepoint rolled back"] += 1
            draft.tables = before
            statements = ("SAVEPOINT shape", *statements, "ROLLBACK TO SAVEPOINT shape")
        statements = (*first, *statements, *self._changed(self._any()))
        return Step(writer, statements, "commit", pen.choice((0.0, 0.0, 0.05)))

    def _shaped(self, table: TableModel) -> Statements:
        pen = self.pen
        if table.fixed:
            return pick(self.draft, self.grammar.soft, table)
        if pen.chance(0.45 if table.has_parts else 0.05):
            return pick(self.draft, self.grammar.partitions, table)
        if pen.chance(0.04):
            return pick(self.draft, self.grammar.surroundings, table)
        return pick(self.draft, self.grammar.alterations if pen.chance(0.65) else self.grammar.tables, table)

    def _changed(self, table: TableModel) -> Statements:
        pen = self.pen
        if self.draft.sequences and pen.chance(0.1):
            return pick(self.draft, self.grammar.sequences, table)
        return pick(self.draft, self.grammar.rare if pen.chance(0.005) else self.grammar.changes, table)

    def _changes(self, writer: int) -> Step:
        """One operation in autocommit, or a transaction of several, over one or more tables."""
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
            whole = self.grammar.prepared(self.draft, tuple(statements), xid)
            return Step(writer, whole, "left" if xid in self.draft.left else "autocommit")
        how: How = "rollback" if pen.chance(0.08) else "commit"
        self.draft.used[how] += 1
        return Step(writer, tuple(statements), how, pen.choice((0.0, 0.0, 0.0, 0.01, 0.05)))

    def _saved(self, statements: Statements, name: str) -> Statements:
        """After a savepoint, to which the transaction mostly goes back."""
        if self.pen.chance(0.3):
            release = (f"RELEASE SAVEPOINT {name}",) if self.grammar.releases else ()
            return (f"SAVEPOINT {name}", *statements, *release)
        self.draft.used["savepoint rolled back"] += 1
        return (f"SAVEPOINT {name}", *statements, f"ROLLBACK TO SAVEPOINT {name}")

    def _huge(self) -> Phase:
        """One transaction of a million rows."""
        draft = self.draft
        key = KeyModel("int", (draft.maker.name("id", odd=0),))
        columns = (
            ColumnModel(key.columns[0], self.grammar.integer, nullable=False, number="plain"),
            ColumnModel(draft.maker.name("c"), self.grammar.word),
        )
        table = draft.maker.model(draft.maker.name("huge"), columns, key)
        draft.keep(table)
        filling = (bulk(draft, table, MILLION), inserted(draft, draft.tables[table.name], 1))
        draft.used["huge"] += 1
        return Phase((Step(0, table.created(), "autocommit"), Step(0, filling, "commit")))
