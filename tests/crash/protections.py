"""What a history's replicator leaves out, masks and filters: a line of its own for some of the tables, beside the whole
database.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from replicator.errors import ConfigurationError, TableError
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask
from replicator.model.row_filter import RowFilter, parse_filter
from replicator.model.schema import Column, TableSchema
from replicator.model.types import Kind
from tests.crash.consistency_checker import KEYED, KEYLESS
from tests.crash.guarded import NAMES
from webapp.replicators.selection.entries import SelectionEntry

MASKS: tuple[object, ...] = (
    "null", "hash", "hash", {"kind": "partial", "first": 1, "last": 2}, {"kind": "fixed", "value": "7"},
)  # fmt: skip
LITERALS: Mapping[Kind, tuple[str, ...]] = {
    Kind.STRING: ("'m'", "'A'", "''"), Kind.INT: ("0", "100", "7"), Kind.BIGINT: ("0", "100", "7"),
    Kind.DECIMAL: ("0", "10", "100"), Kind.BOOLEAN: ("true", "false"), Kind.DATE: ("'2001-01-01'",),
}  # fmt: skip
SHARE = 0.4  # of the tables


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
