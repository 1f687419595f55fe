"""The clauses of ALTER TABLE: which columns, and whether rows that exist may get other values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from replicator.model.identifiers import TableId
from replicator.sources.mysql.ddl.column_definition import DeclaredColumn, declared_column
from replicator.sources.mysql.ddl.tokenizer import NotUnderstood, Token, TokenReader


class ClauseKind(StrEnum):
    """Parts of an ALTER TABLE."""

    ADD = "add column"
    DROP = "drop column"
    RENAME = "rename column"
    MODIFY = "modify column"
    KEY = "becomes part of the primary key"
    CONVERT = "convert character set"
    RENAME_TABLE = "rename table"
    HARMLESS = "harmless"
    ROWS = "rows change without events"
    TAKEN = "rows of another table, which is gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Clause:
    """`column` is the name before, `to` the one after.

    `fills`: the column may give existing rows a value other than NULL.

    `table`: the new name, or the other table whose rows come or go (ROWS, TAKEN).

    `declared`: of a column that is modified, or of CONVERT.
    """

    kind: ClauseKind
    column: str = ""
    to: str = ""
    table: TableId | None = None
    fills: bool = False
    declared: DeclaredColumn = field(default=DeclaredColumn(), compare=False)


def parse_clauses(tokens: Sequence[Token], database: str) -> Iterator[Clause]:
    """What stands behind the table's name."""
    for part in _split(tokens):
        yield from _clause(TokenReader(part, database))


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """At the commas that stand in no parentheses."""
    depth, part = 0, list[Token]()
    for token in tokens:
        kind, text = token
        if kind == "o":
            if text == "(":
                depth += 1
            elif text == ")":
                depth -= 1
            elif text == "," and depth == 0:
                yield part
                part = []
                continue
        part.append(token)
    if part:
        yield part


_HARMLESS = frozenset(
    [
        "ENGINE",
        "TYPE",
        "COMMENT",
        "ROW_FORMAT",
        "AUTO_INCREMENT",
        "KEY_BLOCK_SIZE",
        "STATS_PERSISTENT",
        "STATS_AUTO_RECALC",
        "STATS_SAMPLE_PAGES",
        "ALGORITHM",
        "LOCK",
        "FORCE",
        "ENABLE",
        "DISABLE",
        "ORDER",
        "MAX_ROWS",
        "MIN_ROWS",
        "PACK_KEYS",
        "CHECKSUM",
        "TABLE_CHECKSUM",
        "DELAY_KEY_WRITE",
        "AVG_ROW_LENGTH",
        "COMPRESSION",
        "ENCRYPTION",
        "ENCRYPTED",
        "ENCRYPTION_KEY_ID",
        "PAGE_COMPRESSED",
        "PAGE_COMPRESSION_LEVEL",
        "PAGE_CHECKSUM",
        "TABLESPACE",
        "DATA",
        "INDEX",
        "CONNECTION",
        "TRANSACTIONAL",
        "SECONDARY_LOAD",
        "SECONDARY_UNLOAD",
        "SECONDARY_ENGINE",
        "AUTOEXTEND_SIZE",
        "WITH",
        "WITHOUT",
        "NOWAIT",
        "WAIT",
        "DEFAULT",
        "CHARACTER",
        "CHARSET",
        "COLLATE",
        "ANALYZE",
        "CHECK",
        "OPTIMIZE",
        "REBUILD",
        "REORGANIZE",
        "COALESCE",
        "REMOVE",
        "PARTITION",
        "ENGINE_ATTRIBUTE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "PASSWORD",
        "START",
        "CONSTRAINT",
    ]
)
_KEY_WORDS = ("INDEX", "KEY", "FULLTEXT", "SPATIAL", "UNIQUE", "PRIMARY", "CONSTRAINT", "FOREIGN", "CHECK")


def _clause(reader: TokenReader) -> list[Clause]:
    word = reader.peek().word
    rule = _CLAUSES.get(word)
    if rule:
        reader.at = 1
        try:
            return rule(reader)
        except NotUnderstood:
            return [Clause(ClauseKind.UNKNOWN)]
    return [Clause(ClauseKind.HARMLESS if word in _HARMLESS else ClauseKind.UNKNOWN)]


def _primary_key(reader: TokenReader) -> list[Clause]:
    """What stands behind ADD [CONSTRAINT …] PRIMARY KEY: its columns become NOT NULL."""
    while reader.peek().kind and not reader.accept("("):
        reader.at += 1
    columns = [TokenReader(part, reader.database).name() for part in _split(reader.rest()) if part]
    return [Clause(ClauseKind.KEY, name, name) for name in columns]


def _add_clause(reader: TokenReader, *, listed: bool = False) -> list[Clause]:
    """`listed`: it stands in the parentheses of ADD (…)."""
    words = [token.word for token in reader.rest()[:4]]
    if words[:1] == ["PRIMARY"] or (words[:1] == ["CONSTRAINT"] and "PRIMARY" in words[1:]):
        return _primary_key(reader)
    if reader.any_of(*_KEY_WORDS) or reader.peek().word == "PARTITION":
        return [Clause(ClauseKind.HARMLESS)]
    if words[:2] in (["VECTOR", "INDEX"], ["VECTOR", "KEY"]):  # any other is a column of that name
        return [Clause(ClauseKind.HARMLESS)]
    if reader.peek().word in ("SYSTEM", "PERIOD") and reader.peek(1).word in ("VERSIONING", "FOR"):
        return [Clause(ClauseKind.UNKNOWN)]
    reader.accept("COLUMN")
    reader.accept("IF", "NOT", "EXISTS")
    if reader.peek() != Token("o", "("):
        return [Clause(ClauseKind.ADD, column := reader.name(), column, fills=_fills(reader.rest()))]
    if listed:
        raise NotUnderstood
    inner = reader.rest()[1:-1]
    parts = [TokenReader(part, reader.database) for part in _split(inner)]
    return [clause for part in parts for clause in _add_clause(part, listed=True)]


def _fills(definition: Sequence[Token]) -> bool:
    """True where rows that exist get anything but NULL from the new column."""
    words = [token.word for token in definition]
    for at, word in enumerate(words):
        if word == "DEFAULT" and words[at + 1 : at + 2] != ["NULL"]:
            return True
        if word == "NULL" and words[at - 1] == "NOT":
            return True
        if word in ("AS", "GENERATED", "AUTO_INCREMENT", "PRIMARY", "KEY", "SERIAL", "ROW"):
            return True
    return words[:1] == ["TIMESTAMP"] and "NULL" not in words  # the old default of TIMESTAMP columns


def _drop_clause(reader: TokenReader) -> list[Clause]:
    if reader.peek().word == "PARTITION" and reader.peek(1).kind:
        return [Clause(ClauseKind.ROWS)]
    if reader.any_of(*_KEY_WORDS):
        return [Clause(ClauseKind.HARMLESS)]
    if reader.peek().word in ("SYSTEM", "PERIOD") and reader.peek(1).word in ("VERSIONING", "FOR"):
        return [Clause(ClauseKind.UNKNOWN)]
    reader.accept("COLUMN")
    reader.accept("IF", "EXISTS")
    return [Clause(ClauseKind.DROP, reader.name())]


def _rename_clause(reader: TokenReader) -> list[Clause]:
    if reader.peek().word == "COLUMN" and reader.peek(1).kind:
        reader.at += 1
        reader.accept("IF", "EXISTS")
        old = reader.name()
        if not reader.accept("TO"):
            raise NotUnderstood
        return [Clause(ClauseKind.RENAME, old, reader.name())]
    if reader.peek().word in ("INDEX", "KEY") and reader.peek(1).kind:
        return [Clause(ClauseKind.HARMLESS)]
    reader.any_of("TO", "AS")
    reader.accept("=")
    return [Clause(ClauseKind.RENAME_TABLE, table=reader.table())]


def _modify_clause(reader: TokenReader, *, change: bool = False) -> list[Clause]:
    reader.accept("COLUMN")
    reader.accept("IF", "EXISTS")
    old = reader.name()
    new = reader.name() if change else old
    fills = any(token.word in ("AUTO_INCREMENT", "AS", "GENERATED") for token in reader.rest())
    return [Clause(ClauseKind.MODIFY, old, new, fills=fills, declared=declared_column(reader.rest()))]


def _convert_clause(reader: TokenReader) -> list[Clause]:
    """CONVERT TO CHARACTER SET; MariaDB's CONVERT PARTITION … TO TABLE and CONVERT TABLE … TO PARTITION."""
    if reader.accept("PARTITION"):
        reader.accept("IF", "EXISTS")
        reader.name()
        if not reader.accept("TO", "TABLE"):
            raise NotUnderstood
        return [Clause(ClauseKind.ROWS, table=reader.table())]
    if reader.accept("TABLE"):
        return [Clause(ClauseKind.TAKEN, table=reader.table())]
    return [Clause(ClauseKind.CONVERT, declared=declared_column(reader.rest()))]


def _rows_clause(reader: TokenReader) -> list[Clause]:
    """TRUNCATE, EXCHANGE and REPAIR PARTITION, DISCARD and IMPORT TABLESPACE, UNION of a MERGE table."""
    words = [token.word for token in reader.tokens]
    place = next((at for at in range(1, len(words)) if words[at - 1 : at + 1] == ["WITH", "TABLE"]), None)
    if place is None:
        return [Clause(ClauseKind.ROWS)]
    reader.at = place + 1
    return [Clause(ClauseKind.ROWS, table=reader.table())]


_CLAUSES: dict[str, Callable[[TokenReader], list[Clause]]] = {
    "ADD": _add_clause,
    "DROP": _drop_clause,
    "RENAME": _rename_clause,
    "MODIFY": _modify_clause,
    "CHANGE": lambda reader: _modify_clause(reader, change=True),
    "CONVERT": _convert_clause,
    "ALTER": lambda _: [Clause(ClauseKind.HARMLESS)],  # defaults and visibility
    "TRUNCATE": _rows_clause,
    "EXCHANGE": _rows_clause,
    "DISCARD": _rows_clause,
    "IMPORT": _rows_clause,
    "REPAIR": _rows_clause,
    "UNION": _rows_clause,
}
