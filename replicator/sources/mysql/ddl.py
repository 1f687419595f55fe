"""What a statement in the log means for the tables of a replicator.

An own tokenizer: the general SQL parsers (sqlglot) fall back to one opaque node for most of MySQL's and MariaDB's DDL, and all
that is wanted here is which tables, which columns, and whether rows may have changed.  The schema itself comes from the
catalog and from the log's TABLE_MAPs.  What is not understood is named (Unparsable, Clause UNKNOWN), never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from replicator.model.identifiers import TableId
from replicator.sources.mysql.ddl_tokens import NotUnderstood, Token, TokenReader, tokenize


class ClauseKind(StrEnum):
    """Parts of an ALTER TABLE."""

    ADD = "add column"
    DROP = "drop column"
    RENAME = "rename column"
    MODIFY = "modify column"
    CONVERT = "convert character set"
    RENAME_TABLE = "rename table"
    HARMLESS = "harmless"
    ROWS = "rows change without events"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Clause:
    """`column` is the name before, `to` the one after.  `fills`: the column may give existing rows a value other than NULL."""

    kind: ClauseKind
    column: str = ""
    to: str = ""
    table: TableId | None = None
    fills: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: TableId
    replace: bool = False


@dataclass(frozen=True, slots=True)
class DropTables:
    tables: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class RenameTables:
    """In the order in which the server does them."""

    pairs: tuple[tuple[TableId, TableId], ...]


@dataclass(frozen=True, slots=True)
class TruncateTable:
    table: TableId


@dataclass(frozen=True, slots=True)
class AlterTable:
    table: TableId
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class Dml:
    """A change of rows written as a statement; `tables` are those that it may change."""

    verb: str
    tables: frozenset[TableId]


@dataclass(frozen=True, slots=True)
class Transaction:
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK TO, XA START, XA END, XA COMMIT, XA ROLLBACK; `name`: savepoint or XA id."""

    verb: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Irrelevant:
    """No table's rows or columns change."""


@dataclass(frozen=True, slots=True)
class Unparsable:
    """Not understood; `tables` are all names that occur in it."""

    text: str
    tables: frozenset[TableId]


Statement = (
    CreateTable | DropTables | RenameTables | TruncateTable | AlterTable | CreateDatabase | DropDatabase | Dml | Transaction
    | Irrelevant | Unparsable
)  # fmt: skip


def parse(sql: str, database: str, sql_mode: int = 0) -> Statement:
    """Classify one statement; `database` is the default for names without one."""
    tokens = tokenize(sql, sql_mode)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        return Irrelevant()
    reader = TokenReader(tokens, database)
    verb = reader.peek().word
    rule = _RULES.get(verb)
    if rule is None:
        return Irrelevant() if verb in _IRRELEVANT else Unparsable(sql, mentioned(tokens, database))
    reader.at = 1
    try:
        return rule(reader, verb)
    except NotUnderstood:
        return Unparsable(sql, mentioned(tokens, database))


def mentioned(tokens: Sequence[Token], database: str) -> frozenset[TableId]:
    """Every name that may be a table's."""
    names = set()
    for at, token in enumerate(tokens):
        if token.kind in ("w", "q"):
            names.add(TableId(database, token.text))
            if at >= 2 and tokens[at - 1].text == "." and tokens[at - 2].kind in ("w", "q"):  # noqa: PLR2004
                names.add(TableId(tokens[at - 2].text, token.text))
    return frozenset(names)


_IRRELEVANT = frozenset(
    [
        "GRANT",
        "REVOKE",
        "SET",
        "ANALYZE",
        "OPTIMIZE",
        "REPAIR",
        "CHECK",
        "FLUSH",
        "INSTALL",
        "UNINSTALL",
        "USE",
        "DO",
        "LOCK",
        "UNLOCK",
        "RESET",
        "CHANGE",
        "PURGE",
        "BINLOG",
        "SHUTDOWN",
        "KILL",
        "SHOW",
        "SELECT",
        "HANDLER",
        "PREPARE",
        "EXECUTE",
        "DEALLOCATE",
        "STOP",
        "CACHE",
        "SIGNAL",
        "CALL",
    ]
)


def _create(reader: TokenReader, _verb: str) -> Statement:
    replace = reader.accept("OR", "REPLACE")
    if reader.any_of("DATABASE", "SCHEMA"):
        reader.accept("IF", "NOT", "EXISTS")
        return CreateDatabase(reader.name())
    if reader.accept("TEMPORARY"):
        return Irrelevant()
    if reader.accept("TABLE"):
        reader.accept("IF", "NOT", "EXISTS")
        return CreateTable(reader.table(), replace)
    return _index(reader)


def _index(reader: TokenReader) -> Statement:
    """CREATE INDEX and DROP INDEX can change which columns tell rows apart; views, users and the like change nothing."""
    while reader.any_of("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
        pass
    if not reader.accept("INDEX"):
        return Irrelevant()
    while reader.peek().kind and not reader.accept("ON"):
        reader.at += 1
    return AlterTable(reader.table(), (Clause(ClauseKind.HARMLESS),))


def _drop(reader: TokenReader, _verb: str) -> Statement:
    if reader.any_of("DATABASE", "SCHEMA"):
        reader.accept("IF", "EXISTS")
        return DropDatabase(reader.name())
    if reader.accept("TEMPORARY"):
        return Irrelevant()
    if not reader.any_of("TABLE", "TABLES"):
        return _index(reader)
    reader.accept("IF", "EXISTS")
    tables = [reader.table()]
    while reader.accept(","):
        tables.append(reader.table())
    return DropTables(tuple(tables))


def _rename(reader: TokenReader, _verb: str) -> Statement:
    if not reader.any_of("TABLE", "TABLES"):
        return Irrelevant()
    reader.accept("IF", "EXISTS")
    pairs = []
    while True:
        old = reader.table()
        reader.wait()
        if not reader.accept("TO"):
            raise NotUnderstood
        pairs.append((old, reader.table()))
        if not reader.accept(","):
            return RenameTables(tuple(pairs))


def _truncate(reader: TokenReader, _verb: str) -> Statement:
    reader.accept("TABLE")
    return TruncateTable(reader.table())


def _dml(reader: TokenReader, verb: str) -> Statement:
    words = [token.word for token in reader.tokens]
    if verb == "DELETE" and words[1:2] == ["FROM"]:
        reader.at = 2
        table = reader.table()
        return (
            Dml(verb, frozenset({table})) if reader.rest() else TruncateTable(table)
        )  # a MEMORY table after a restart
    if verb in ("INSERT", "REPLACE"):
        while reader.any_of("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"):
            pass
        return Dml(verb, frozenset({reader.table()}))
    end = words.index("SET") if verb == "UPDATE" and "SET" in words else len(words)
    return Dml(verb, mentioned(reader.tokens[1:end], reader.database))


def _transaction(reader: TokenReader, verb: str) -> Statement:
    if verb == "ROLLBACK":
        reader.accept("WORK")
        if reader.accept("TO"):
            reader.accept("SAVEPOINT")
            return Transaction("ROLLBACK TO", reader.name())
    if verb == "SAVEPOINT":
        return Transaction(verb, reader.name())
    if verb == "START" and not reader.accept("TRANSACTION"):
        return Irrelevant()
    if verb == "XA":
        return _xa(reader)
    return Transaction({"START": "BEGIN"}.get(verb, verb))


def _xa(reader: TokenReader) -> Statement:
    """The id in the form of `events.parse_xa_prepare`."""
    verb = reader.name().upper()
    parts = re.findall(r"[Xx]'([0-9A-Fa-f]*)'|'([^']*)'|(\d+)", "".join(f"{t.text}" for t in reader.rest()))
    texts = [(hexed or plain.encode().hex()).lower() for hexed, plain, number in parts if not number]
    number = next((number for _, _, number in parts if number), "1")
    gtrid, bqual = [*texts, "", ""][:2]
    return Transaction(f"XA {'START' if verb == 'BEGIN' else verb}", f"X'{gtrid}',X'{bqual}',{number}")


def _alter(reader: TokenReader, _verb: str) -> Statement:
    ignore = False
    while word := reader.any_of("ONLINE", "OFFLINE", "IGNORE"):
        ignore = ignore or word == "IGNORE"
    if not reader.accept("TABLE"):
        return Irrelevant()
    reader.accept("IF", "EXISTS")
    table = reader.table()
    reader.wait()
    clauses: list[Clause] = [Clause(ClauseKind.ROWS)] if ignore else []  # IGNORE drops rows with a double key
    for tokens in _split(reader.rest()):
        clauses += _clause(TokenReader(tokens, reader.database))
    return AlterTable(table, tuple(clauses))


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """At the commas that stand in no parentheses."""
    depth, part = 0, list[Token]()
    for token in tokens:
        if token.kind == "o":
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "," and depth == 0:
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
        "REPAIR",
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
_KEY_WORDS = ("INDEX", "KEY", "FULLTEXT", "SPATIAL", "VECTOR", "UNIQUE", "PRIMARY", "CONSTRAINT", "FOREIGN", "CHECK")


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


def _add_clause(reader: TokenReader) -> list[Clause]:
    if reader.any_of(*_KEY_WORDS) or reader.peek().word == "PARTITION":
        return [Clause(ClauseKind.HARMLESS)]
    if reader.peek().word in ("SYSTEM", "PERIOD") and reader.peek(1).word in ("VERSIONING", "FOR"):
        return [Clause(ClauseKind.UNKNOWN)]
    reader.accept("COLUMN")
    reader.accept("IF", "NOT", "EXISTS")
    if reader.peek() != Token("o", "("):
        return [Clause(ClauseKind.ADD, column := reader.name(), column, fills=_fills(reader.rest()))]
    inner = reader.rest()[1:-1]
    parts = [TokenReader(part, reader.database) for part in _split(inner)]
    return [clause for part in parts for clause in _add_clause(part)]


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
    return [Clause(ClauseKind.MODIFY, old, new, fills=fills)]


def _convert_clause(reader: TokenReader) -> list[Clause]:
    if reader.peek().word in ("PARTITION", "TABLE"):
        return [Clause(ClauseKind.ROWS)]
    return [Clause(ClauseKind.CONVERT)]


def _rows_clause(reader: TokenReader) -> list[Clause]:
    """TRUNCATE and EXCHANGE PARTITION, DISCARD and IMPORT TABLESPACE, UNION of a MERGE table."""
    while reader.peek().kind and not reader.accept("WITH", "TABLE"):
        reader.at += 1
    other = reader.table() if reader.peek().kind else None
    return [Clause(ClauseKind.ROWS, table=other)]


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
    "UNION": _rows_clause,
}
_RULES: dict[str, Callable[[TokenReader, str], Statement]] = {
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    **dict.fromkeys(("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"), _dml),
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA"), _transaction),
    "RELEASE": lambda _reader, _verb: Irrelevant(),
}
