"""What a history's replicator leaves out, masks and filters.

The selection has the whole database, and a separate line for some of its tables.  A guarded table, which is renamed
again and again, has a masked and an excluded column whose values all have a mark: the mark may never be in the target
(invariant 12).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from replicator.errors import ConfigurationError, TableError
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask, parse_masks
from replicator.model.row_filter import RowFilter, parse_filter
from replicator.model.schema import Column, TableSchema
from replicator.model.types import Kind
from tests.crash.consistency_checker import KEYED, KEYLESS
from tests.crash.sources import SourceUnderTest
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.selection.entries import SelectionEntry

MASKS: tuple[object, ...] = (
    "null", "hash", "hash", {"kind": "partial", "first": 1, "last": 2}, {"kind": "fixed", "value": "7"},
)  # fmt: skip
LITERALS: Mapping[Kind, tuple[str, ...]] = {
    Kind.STRING: ("'m'", "'A'", "''"), Kind.INT: ("0", "100", "7"), Kind.BIGINT: ("0", "100", "7"),
    Kind.DECIMAL: ("0", "10", "100"), Kind.BOOLEAN: ("true", "false"), Kind.DATE: ("'2001-01-01'",),
}  # fmt: skip
SHARE = 0.4  # of the tables
GUARDED, *_ = NAMES = ("guarded", "guarded_b", "guarded_c")
MARK = "nobody may see this"
PAUSE = 0.3


def protections(described: Mapping[TableId, TableSchema | TableError], seed: int) -> list[SelectionEntry]:
    """Of every second history; the witness tables are read as they are."""
    chance = random.Random(f"protections {seed}")
    if chance.random() < 0.5:
        return []
    lines = []
    for table, schema in sorted(described.items()):
        wanted = chance.random() < SHARE
        if wanted and isinstance(schema, TableSchema) and table.name not in {KEYED, KEYLESS, *NAMES}:
            lines.append(protection(schema, chance))
    return [line for line in lines if line.masks or line.row_filter or line.excluded_columns]


def protection(schema: TableSchema, chance: random.Random) -> SelectionEntry:
    """Up to two masks, a condition for every third table, and a column less for every third."""
    columns = list(schema.columns)
    chance.shuffle(columns)
    masks = {}
    for column in columns[: chance.choice((0, 1, 1, 2))]:
        mask = Mask.from_dict(chance.choice(MASKS))
        if not mask.refusal(column.name, column.type, key=column.name in schema.key):
            masks[column.name] = mask
    chosen = _condition(columns[-1], chance) if chance.random() < 1 / 3 else RowFilter()
    if chosen.refusal(schema):
        chosen = RowFilter()
    free = [one.name for one in columns[2:-1] if one.name not in schema.key]
    left_out = tuple(free[:1]) if chance.random() < 1 / 3 else ()
    table = schema.table
    return SelectionEntry(table.database, table.name, excluded_columns=left_out, masks=masks, row_filter=chosen)


def _condition(column: Column, chance: random.Random) -> RowFilter:
    name = '"' + column.name.replace('"', '""') + '"'
    literal = chance.choice(LITERALS.get(column.type.kind, ("",)))
    operators = ["IS NOT NULL", "IS NULL"]
    if literal:
        operators += [f"{sign} {literal}" for sign in ("<", ">=", "<>", "=")]
    try:
        return parse_filter(f"{name} {chance.choice(operators)}")
    except ConfigurationError:
        return RowFilter()


class Guarded:
    """One session.  Tables are only made under the name that has the line; others get it when one is renamed so.

    Sources whose log tells no statements show a table that is made and renamed between two looks at the catalog under
    its second name only: there none is made or renamed so before the journal knows all others under their names.
    """

    def __init__(self, source: SourceUnderTest, name: str, seed: str, followed: Callable[[], Iterable[str]]) -> None:
        """`name`: the history's.  followed: names of tables that the journal knows."""
        self._followed, self._settled = followed, True
        self._source, self._name, self._random = source, name, random.Random(seed)
        self._errors: tuple[type[Exception], ...] = (*source.errors, OSError)
        self._last = 0

    def line(self) -> SelectionEntry:
        """Of the selection."""
        masks = parse_masks({"mail": "hash"})
        return SelectionEntry(self._name, GUARDED, excluded_columns=("ssn",), masks=masks)

    def prepare(self) -> None:
        """Make the table, with its first rows."""
        self._run(self._made(), *(self._row(GUARDED) for _ in range(20)))

    def play(self, stopped: Callable[[], bool]) -> None:
        """Until stopped; what there is by now is asked before each step."""
        while not stopped():
            with suppress(*self._errors):
                self._step(sorted(self._source.tables(self._name) & set(NAMES)))
            time.sleep(PAUSE)

    def _step(self, there: list[str]) -> None:
        free = [name for name in NAMES if name not in there]
        chance = self._random.random()
        told = self._source.kind in {"mysql", "mariadb", "oracle"} or {*self._followed()} & {*NAMES} == {*there}
        self._settled = self._settled or told
        if told and GUARDED in free and (not there or chance < 0.1):
            self._run(self._made(), self._row(GUARDED))
            self._settled = False
        elif not there:
            return
        elif len(there) > 1 and chance < 0.2:
            self._run(f"DROP TABLE {self._named(self._random.choice(there))}")
        elif self._settled and chance < 0.5 and free:
            self._run(self._renamed(self._random.choice(there), self._random.choice(free)))
        else:
            table = self._random.choice(there)
            named, key = self._named(table), self._random.randint(1, self._last)
            mail, ident, v = map(self._named, ("mail", "id", "v"))
            changed = f"UPDATE {named} SET {mail} = '{MARK} {self._last}', {v} = {v} + 1 WHERE {ident} = {key}"
            self._run(self._row(table), changed, f"DELETE FROM {named} WHERE {ident} = {key - 5}")

    def _run(self, *statements: str) -> None:
        with closing(self._source.connect(self._name)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def _named(self, name: str) -> str:
        return f'"{name}"' if self._source.kind == "oracle" else name

    def _made(self) -> str:
        columns = ", ".join(f"{self._named(name)} VARCHAR(80)" for name in ("mail", "ssn"))
        ident, v = f"{self._named('id')} INT PRIMARY KEY", f"{self._named('v')} INT"
        return f"CREATE TABLE {self._named(GUARDED)} ({ident}, {columns}, {v})"

    def _row(self, table: str) -> str:
        self._last += 1
        return f"INSERT INTO {self._named(table)} VALUES ({self._last}, '{MARK} m{self._last}', '{MARK} s', 1)"

    def _renamed(self, old: str, new: str) -> str:
        if self._source.kind == "sqlserver":
            return f"EXEC sp_rename '{old}', '{new}'"
        return f"ALTER TABLE {self._named(old)} RENAME TO {self._named(new)}"


def seen(catalog: Catalog, tables: Iterable[ReplicatorTable]) -> list[str]:
    """Of the target's tables, what shows such a value, or the column that is left out."""
    found = []
    for table in tables:
        try:
            opened = catalog.load_table((*table.target_namespace.split("."), table.target_name))
        except NoSuchTableError:
            continue
        if MARK in str(opened.scan().to_arrow().to_pylist()):
            found.append(f"{table} shows what a mask or an exclusion protects")
        elif table.name in NAMES and "ssn" in opened.schema().column_names and not table.target_part:
            found.append(f"{table} has a column that is left out")
    return found
