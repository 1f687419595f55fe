"""Storage engines: whose tables have just the rows that the log has of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replicator.errors import TableError, UnsupportedDdl, UnsupportedEngine
from replicator.model.identifiers import TableId
from replicator.sources.mysql.ddl.tokenizer import NotUnderstood, Token, TokenReader

# Tried live: rows of statements that failed or were rolled back stay, and are in the log; a MEMORY table that a restart
# has emptied is emptied in the log when it is next opened.
EXACT = frozenset({"innodb", "myisam", "aria", "memory"})
# Engines whose reads see one moment; every other is read first and marked after.
TRANSACTIONAL = frozenset({"innodb"})
MERGE = "mrg_myisam"
_ALIASES = {
    "innobase": "innodb",
    "heap": "memory",
    "maria": "aria",
    "merge": MERGE,
    "ndb": "ndbcluster",
    "federatedx": "federated",
}
_ELSEWHERE = "its rows are stored elsewhere, and their changes are not in this server's log"
_WHY = {
    MERGE: "it shows rows of other tables, whose changes are logged under their own names",
    "blackhole": "it stores no rows, while the log has the rows written to it",
    "csv": "it stores numbers as text that can differ from the log, and its file can be changed externally",
    "archive": "its rows are lost when the server process ends",
    "performance_schema": "its rows are not logged",
    "sequence": "its rows are not logged",
    "ndbcluster": "changes by other servers of the cluster are not in this server's log as rows of statements are",
    "rocksdb": "rows can expire (TTL) without a log entry",
    **dict.fromkeys(("federated", "connect", "spider", "s3"), _ELSEWHERE),
}
_UNKNOWN = "it is unknown whether its rows always match the log"
_REMEDY = "Exclude the table; or run ALTER TABLE … ENGINE = InnoDB on the source, then resnapshot it."
_IN_UNION_REMEDY = "Exclude the table; or remove it from the UNION of {}, then resnapshot it."
_NOTES = {
    "myisam": "MyISAM is not crash-safe. Verify the table after a crash of the source.",
    "aria": (
        "Aria does not write its log and the server's log atomically. Verify the table after a crash of the source."
    ),
    "memory": "Each restart of the source empties the table, and the target table with it.",
}
# Parts of an ALTER TABLE that begin with one of these are not table options.
_VERBS = frozenset({"ADD", "ALTER", "CHANGE", "DROP", "MODIFY", "ORDER", "RENAME"})


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """What a statement says of a table's storage; `engine` empty: nothing.

    `union`: the tables that a MERGE table shows.

    `versioned`: MariaDB keeps the rows of the past in it.
    """

    engine: str = ""
    union: tuple[TableId, ...] = ()
    versioned: bool = False


NO_OPTIONS = StorageOptions()


def canonical(engine: str) -> str:
    """The engine's own name, in lower case."""
    name = engine.lower()
    return _ALIASES.get(name, name)


def refusal(table: TableId, engine: str) -> TableError | None:
    """None for an engine whose tables can be taken, and where nothing is said of it."""
    name = canonical(engine)
    if not name or name in EXACT:
        return None
    message = f"{table} is a table of the storage engine {engine}: {_WHY.get(name, _UNKNOWN)}."
    return UnsupportedEngine(message, table=str(table), remedy=_REMEDY)


def versioned(table: TableId) -> TableError:
    """Of a table with the rows of the past."""
    message = f"{table} is system-versioned: its log mixes history rows with the present ones."
    remedy = "Remove the table from the replicator; or run ALTER TABLE … DROP SYSTEM VERSIONING on the source."
    return UnsupportedDdl(message, table=str(table), remedy=remedy)


def refused(table: TableId, options: StorageOptions) -> TableError | None:
    """Of a table that a statement makes."""
    return versioned(table) if options.versioned else refusal(table, options.engine)


def notes_on(engine: str) -> tuple[str, ...]:
    """What a user should know who takes a table of this engine."""
    note = _NOTES.get(canonical(engine))
    return (note,) if note else ()


def in_union(table: TableId, merge: TableId) -> TableError:
    """Of a MyISAM table that a MERGE table shows."""
    message = (
        f"{table} is in the UNION of the MERGE table {merge}: rows changed through the MERGE table are logged under its"
        " name."
    )
    return UnsupportedEngine(message, table=str(table), remedy=_IN_UNION_REMEDY.format(merge))


def storage_options(tokens: Sequence[Token], database: str) -> StorageOptions:
    """ENGINE and UNION among the table options of a CREATE TABLE or ALTER TABLE; WITH SYSTEM VERSIONING anywhere."""
    engine, union, depth, at_start, option = "", tuple[TableId, ...](), 0, True, True
    reader = TokenReader(tokens, database)
    for at, token in enumerate(tokens):
        if token.kind == "o" and token.text in "()":
            depth += 1 if token.text == "(" else -1
        elif depth == 0 and token.kind == "o" and token.text == ",":
            at_start = True
            continue
        elif depth == 0:
            if token.word == "SELECT":
                break
            option = token.word not in _VERBS if at_start else option
            reader.at = at + 1
            if option and token.word in ("ENGINE", "TYPE"):
                engine = _engine(reader) or engine
            elif option and token.word == "UNION":
                union = _union(reader) or union
        at_start = False
    words = [token.word for token in tokens]
    past = any(words[at : at + 3] == ["WITH", "SYSTEM", "VERSIONING"] for at in range(len(words)))
    return StorageOptions(engine, union, past)


def _engine(reader: TokenReader) -> str:
    said = reader.accept("=")
    token = reader.peek()
    if token.kind not in ("w", "q", "s") or (
        not said and token.word in ("ASC", "DESC")
    ):  # of ORDER BY type, engine DESC
        return ""
    return token.text.strip("'\"")


def _union(reader: TokenReader) -> tuple[TableId, ...]:
    reader.accept("=")
    if not reader.accept("("):
        return ()
    tables = []
    try:
        while not reader.accept(")"):
            tables.append(reader.table())
            reader.accept(",")
    except NotUnderstood:
        pass
    return tuple(tables)
