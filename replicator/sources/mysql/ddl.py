"""What a statement in the log means for the tables of a replicator.

An own tokenizer: the general SQL parsers (sqlglot) fall back to one opaque node for most of MySQL's and MariaDB's DDL, and all
that is wanted here is which tables, which columns, and whether rows may have changed.  The schema itself comes from the
catalog and from the log's TABLE_MAPs.  What is not understood is named (Unparsable, Clause UNKNOWN), never guessed at.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replicator.model.identifiers import TableId
from replicator.sources.mysql.ddl_clauses import Clause, ClauseKind, parse_clauses
from replicator.sources.mysql.ddl_tokens import NotUnderstood, Token, TokenReader, tokenize
from replicator.sources.mysql.engines import NO_OPTIONS, StorageOptions, storage_options


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: TableId
    replace: bool = False
    like: TableId | None = None
    options: StorageOptions = field(default=NO_OPTIONS, compare=False)


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
    options: StorageOptions = field(default=NO_OPTIONS, compare=False)


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


def parse(sql: str, database: str, sql_mode: int = 0, *, mariadb: bool = True) -> Statement:
    """Classify one statement; `database` is the default for names without one."""
    tokens = tokenize(sql, sql_mode, mariadb=mariadb)
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


def opaque_columns(sql: str, sql_mode: int = 0) -> dict[str, str]:
    """Columns that a MariaDB statement gives a type which the log shows as BINARY(n): name → uuid, inet6, inet4."""
    tokens = tokenize(sql, sql_mode)
    pairs = itertools.pairwise(tokens)
    return {name.text: kind.text.lower() for name, kind in pairs if name.kind in ("w", "q") and kind.word in _OPAQUE}


_OPAQUE = frozenset(["UUID", "INET6", "INET4"])


def mentioned(tokens: Sequence[Token], database: str) -> frozenset[TableId]:
    """Every name that may be a table's."""
    names = set[tuple[str, str]]()
    before = last = Token("", "")
    for token in tokens:
        if token.kind in ("w", "q"):
            names.add((database, token.text))
            if last.text == "." and before.kind in ("w", "q"):
                names.add((before.text, token.text))
        before, last = last, token
    return frozenset(TableId(*name) for name in names)


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
        table = reader.table()
        options = storage_options(reader.rest(), reader.database)
        reader.accept("(")
        return CreateTable(table, replace, reader.table() if reader.accept("LIKE") else None, options)
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
    if verb == "DELETE" and reader.peek().word == "FROM":
        reader.at = 2
        table = reader.table()
        return (
            Dml(verb, frozenset({table})) if reader.rest() else TruncateTable(table)
        )  # a MEMORY table after a restart
    if verb in ("INSERT", "REPLACE"):
        while reader.any_of("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"):
            pass
        return Dml(verb, frozenset({reader.table()}))
    tokens = reader.tokens[1:]
    if verb == "UPDATE":
        end = next((at for at, token in enumerate(tokens) if token.word == "SET"), len(tokens))
        tokens = tokens[:end]
    return Dml(verb, mentioned(tokens, reader.database))


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
    clauses += parse_clauses(reader.rest(), reader.database)
    return AlterTable(table, tuple(clauses), storage_options(reader.rest(), reader.database))


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
