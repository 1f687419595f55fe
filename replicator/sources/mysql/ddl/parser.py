"""What a statement in the log means for the tables of a replicator.

An own tokenizer: the general SQL parsers (sqlglot) fall back to one opaque node for most of MySQL's and MariaDB's DDL,
and all that is wanted here is which tables, which columns, and whether rows may have changed.  The schema itself comes
from the catalog and from the log's TABLE_MAPs.  What is not understood is named (Unparsable, Clause UNKNOWN), never
guessed at.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from replicator.model.change import Cascade
from replicator.model.identifiers import TableId
from replicator.sources.mysql.catalog.storage_engines import NO_OPTIONS, StorageOptions, storage_options
from replicator.sources.mysql.ddl.alter_clauses import Clause, ClauseKind, parse_clauses
from replicator.sources.mysql.ddl.tokenizer import NotUnderstood, Token, TokenReader, tokenize


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`filled`: with rows of a query, which the log does not show."""

    table: TableId
    replace: bool = False
    like: TableId | None = None
    filled: bool = False
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
class TemporaryTables:
    """CREATE or DROP TEMPORARY TABLE: from here on these names are, for this session, no tables of the replicator, or
    are again.
    """

    tables: tuple[TableId, ...]
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """`replace`: one of that name, and its tables, are gone."""

    name: str
    replace: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class Dml:
    """A change of rows written as a statement; `tables` are those that it may change, `calls` the functions in it."""

    verb: str
    tables: frozenset[TableId]
    calls: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class UnseenRows:
    """Rows may have changed, and the log does not show them.  `tables` None: those of any table."""

    tables: frozenset[TableId] | None = None


@dataclass(frozen=True, slots=True)
class TransactionStatement:
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK TO, XA START, XA END, XA COMMIT, XA ROLLBACK; `name`: savepoint or
    XA id.
    """

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
    CreateTable | DropTables | RenameTables | TruncateTable | AlterTable | TemporaryTables | CreateDatabase
    | DropDatabase | Dml | UnseenRows | TransactionStatement | Irrelevant | Unparsable
)  # fmt: skip


def parse(sql: str, database: str, sql_mode: int = 0, *, mariadb: bool = True) -> Statement:
    """Classify one statement; `database` is the default for names without one."""
    tokens = tokenize(sql, sql_mode, mariadb=mariadb)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        return Irrelevant()
    try:
        return _statement(TokenReader(tokens, database))
    except NotUnderstood:
        return Unparsable(sql, mentioned(tokens, database))


def _statement(reader: TokenReader) -> Statement:
    verb = reader.peek().word
    rule = _RULES.get(verb)
    if rule is None:
        if verb in _IRRELEVANT:
            return Irrelevant()
        raise NotUnderstood
    reader.at += 1
    return rule(reader, verb)


def opaque_columns(sql: str, sql_mode: int = 0) -> dict[str, str]:
    """Columns that a MariaDB statement gives a type which the log shows as BINARY(n): name → uuid, inet6, inet4."""
    tokens = tokenize(sql, sql_mode)
    pairs = itertools.pairwise(tokens)
    return {name.name: kind.text.lower() for name, kind in pairs if name.name and kind.word in _OPAQUE}


def cascades(sql: str, table: TableId, sql_mode: int = 0) -> tuple[Cascade, ...]:
    """Foreign keys that a statement gives `table`, with actions other than RESTRICT."""
    reader, found = TokenReader(tokenize(sql, sql_mode), table.database), list[Cascade]()
    while reader.peek().kind:
        if not reader.accept("REFERENCES"):
            reader.at += 1
            continue
        try:
            parent, columns = reader.table(), list[str]()
            listed = reader.accept("(")
            while listed and (reader.accept(",") or not columns):
                columns.append(reader.name())
        except NotUnderstood:  # a name like any other
            continue
        reader.accept(")")
        actions = {}
        while (word := reader.peek().word) and word in _OF_REFERENCES:
            reader.at += 1
            if word == "ON":
                actions[reader.peek().word] = [reader.peek(1).word, reader.peek(2).word]
        on_delete, on_update = (actions.get(verb, ["", ""]) for verb in ("DELETE", "UPDATE"))
        changing = [
            words[0] == "CASCADE" or words in (["SET", "NULL"], ["SET", "DEFAULT"]) for words in (on_delete, on_update)
        ]
        if any(changing):
            found.append(Cascade(parent, table, tuple(columns), *changing))
    return tuple(found)


_OF_REFERENCES = frozenset(
    ["MATCH", "FULL", "PARTIAL", "SIMPLE", "ON", "DELETE", "UPDATE", "CASCADE", "SET", "NULL", "DEFAULT", "RESTRICT",
        "NO", "ACTION"]
)  # fmt: skip
_OPAQUE = frozenset(["UUID", "INET6", "INET4"])


def mentioned(tokens: Sequence[Token], database: str) -> frozenset[TableId]:
    """Every name that may be a table's."""
    names = set[tuple[str, str]]()
    before = last = Token("", "")
    for token in tokens:
        if name := token.name:
            names.add((database, name))
            if last.text == "." and before.name:
                names.add((before.name, name))
        before, last = last, token
    return frozenset(TableId(*name) for name in names)


_IRRELEVANT = frozenset(
    [
        "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "CHECK", "FLUSH", "INSTALL", "UNINSTALL", "USE", "LOCK", "UNLOCK",
        "RESET",
        "CHANGE", "PURGE", "BINLOG", "SHUTDOWN", "KILL", "SHOW", "HANDLER", "PREPARE", "EXECUTE", "DEALLOCATE", "STOP",
        "CACHE",
        "SIGNAL",
    ]
)  # fmt: skip
# What CREATE, ALTER, DROP and RENAME do to these changes no table's rows or columns.
_OTHER_OBJECTS = frozenset(
    [
        "AGGREGATE", "ALGORITHM", "DEFINER", "EVENT", "FUNCTION", "INSTANCE", "LIBRARY", "LOGFILE", "PACKAGE",
        "PREPARE",
        "PROCEDURE", "RESOURCE", "ROLE", "SEQUENCE", "SERVER", "SPATIAL", "SQL", "TABLESPACE", "TRIGGER", "UNDO",
        "USER", "VIEW",
    ]
)  # fmt: skip


def _other_object(reader: TokenReader) -> Statement:
    if reader.peek().word in _OTHER_OBJECTS:
        return Irrelevant()
    raise NotUnderstood


def _create(reader: TokenReader, _verb: str) -> Statement:
    replace = reader.accept("OR", "REPLACE")
    if reader.any_of("DATABASE", "SCHEMA"):
        reader.accept("IF", "NOT", "EXISTS")
        return CreateDatabase(reader.name(), replace)
    temporary = reader.accept("TEMPORARY")
    if reader.accept("TABLE"):
        reader.accept("IF", "NOT", "EXISTS")
        table = reader.table()
        options = storage_options(reader.rest(), reader.database)
        reader.accept("(")
        like = reader.table() if reader.accept("LIKE") else None
        if temporary:
            return TemporaryTables((table,))
        return CreateTable(table, replace, like, _filled(reader.rest()), options)
    return _other_object(reader) if temporary else _index(reader)


def _filled(definition: Sequence[Token]) -> bool:
    """CREATE TABLE … SELECT, TABLE, VALUES.  PARTITION … VALUES LESS THAN and VALUES IN are none."""
    words = [token.word for token in definition]
    rows = {at for at, word in enumerate(words) if word == "VALUES"}
    return not {"SELECT", "TABLE"}.isdisjoint(words) or any(words[at + 1 : at + 2] in ([""], ["ROW"]) for at in rows)


def _set(reader: TokenReader, _verb: str) -> Statement:
    """SET STATEMENT … FOR: what stands behind it counts; its FOR is the first one outside parentheses."""
    if not reader.accept("STATEMENT"):
        return Irrelevant()
    depth = 0
    while (token := reader.peek()).kind:
        reader.at += 1
        depth += (token == ("o", "(")) - (token == ("o", ")"))
        if token.word == "FOR" and not depth:
            return _statement(reader)
    raise NotUnderstood


def _index(reader: TokenReader) -> Statement:
    """CREATE INDEX and DROP INDEX can change which columns tell rows apart; views, users and the like change
    nothing.
    """
    if reader.peek(1).word == "REFERENCE":  # SPATIAL REFERENCE SYSTEM
        return Irrelevant()
    while reader.any_of("ONLINE", "OFFLINE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
        pass
    if not reader.accept("INDEX"):
        return _other_object(reader)
    while reader.peek().kind and not reader.accept("ON"):
        reader.at += 1
    return AlterTable(reader.table(), (Clause(ClauseKind.HARMLESS),))


def _drop(reader: TokenReader, _verb: str) -> Statement:
    if reader.any_of("DATABASE", "SCHEMA"):
        reader.accept("IF", "EXISTS")
        return DropDatabase(reader.name())
    temporary = reader.accept("TEMPORARY")
    if not reader.any_of("TABLE", "TABLES"):
        return _other_object(reader) if temporary else _index(reader)
    reader.accept("IF", "EXISTS")
    tables = [reader.table()]
    while reader.accept(","):
        tables.append(reader.table())
    return TemporaryTables(tuple(tables), dropped=True) if temporary else DropTables(tuple(tables))


def _rename(reader: TokenReader, _verb: str) -> Statement:
    if not reader.any_of("TABLE", "TABLES"):
        return _other_object(reader)
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
    tokens = reader.rest()
    calls = frozenset(name.name for name, after in itertools.pairwise(tokens) if name.name and after == ("o", "("))
    if verb == "DELETE" and reader.accept("FROM"):
        table = reader.table()
        if not reader.rest():
            return TruncateTable(table)  # a MEMORY table after a restart
        if not (reader.accept(",") or reader.accept("USING")):
            return Dml(verb, frozenset({table}), calls)
    if verb in ("INSERT", "REPLACE"):
        while reader.any_of("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"):
            pass
        return Dml(verb, frozenset({reader.table()}), calls)
    if verb == "UPDATE":
        end = next((at for at, token in enumerate(tokens) if token.word == "SET"), len(tokens))
        tokens = tokens[:end]
    return Dml(verb, mentioned(tokens, reader.database), calls)


def _transaction(reader: TokenReader, verb: str) -> Statement:
    if verb == "ROLLBACK":
        reader.accept("WORK")
        if reader.accept("TO"):
            reader.accept("SAVEPOINT")
            return TransactionStatement("ROLLBACK TO", reader.name())
    if verb == "SAVEPOINT":
        return TransactionStatement(verb, reader.name())
    if verb == "BEGIN" and not reader.accept("WORK") and reader.rest():
        raise NotUnderstood
    if verb == "START" and not reader.accept("TRANSACTION"):
        return Irrelevant()
    if verb == "XA":
        return _xa(reader)
    return TransactionStatement({"START": "BEGIN"}.get(verb, verb))


def _xa(reader: TokenReader) -> Statement:
    """The id in the form of `events.parse_xa_prepare`."""
    verb = reader.name().upper()
    parts = re.findall(r"[Xx]'([0-9A-Fa-f]*)'|'([^']*)'|(\d+)", "".join(f"{t.text}" for t in reader.rest()))
    texts = [(hexed or plain.encode().hex()).lower() for hexed, plain, number in parts if not number]
    number = next((number for _, _, number in parts if number), "1")
    gtrid, bqual = [*texts, "", ""][:2]
    return TransactionStatement(f"XA {'START' if verb == 'BEGIN' else verb}", f"X'{gtrid}',X'{bqual}',{number}")


def _alter(reader: TokenReader, _verb: str) -> Statement:
    ignore = False
    while word := reader.any_of("ONLINE", "OFFLINE", "IGNORE"):
        ignore = ignore or word == "IGNORE"
    if not reader.accept("TABLE"):
        return Irrelevant() if reader.any_of("DATABASE", "SCHEMA") else _other_object(reader)
    reader.accept("IF", "EXISTS")
    table = reader.table()
    reader.wait()
    clauses: list[Clause] = [Clause(ClauseKind.ROWS)] if ignore else []  # IGNORE drops rows with a double key
    clauses += parse_clauses(reader.rest(), reader.database)
    return AlterTable(table, tuple(clauses), storage_options(reader.rest(), reader.database))


def _repair(reader: TokenReader, _verb: str) -> Statement:
    """What cannot be repaired is taken out of a table of MyISAM or Aria."""
    return UnseenRows(mentioned(reader.rest(), reader.database))


_RULES: dict[str, Callable[[TokenReader, str], Statement]] = {
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    **dict.fromkeys(("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH"), _dml),
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA"), _transaction),
    # These are in the log where they call a function that changes rows: which ones is in no text.
    **dict.fromkeys(("SELECT", "DO", "CALL"), lambda _reader, _verb: UnseenRows()),
    "SET": _set,
    "REPAIR": _repair,
    "RELEASE": lambda _reader, _verb: Irrelevant(),
}
