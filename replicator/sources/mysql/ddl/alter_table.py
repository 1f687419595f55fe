"""What an ALTER TABLE makes of a schema, and whether rows that exist keep their values.

A reload is asked for unless it is certain that it is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from replicator.model.schema import Column, TableSchema
from replicator.model.types import Kind, widens
from replicator.sources.mysql.catalog.catalog import read_labels
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.ddl.alter_clauses import Clause, ClauseKind
from replicator.sources.mysql.ddl.column_definition import DeclaredColumn
from replicator.sources.mysql.types import LABELS, TEXTS, ColumnDefinition

Signature = tuple[object, ...]

_INT_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_TEXT_SIZES = {"tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4}
_BLOB_SIZES = {"tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4}
_BINARY_FORMS = {"uuid": 16, "inet6": 16, "inet4": 4}
# Types whose values stay as they are where the first number grows.  CHAR and VARCHAR are not each other's: CHAR loses
# the blanks at its end, and keeps them with PAD_CHAR_TO_FULL_LENGTH.
_GROWING = frozenset(
    (name, name) for name in ("decimal", "bit", "char", "varchar", "varbinary", "text", "blob", "datetime")
)
_TOLD_IN_FULL = frozenset({"date", "year", "time", "timestamp", "binary", "json"})
_EVERY_CHARACTER = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_ARGUMENTS = re.compile(r"\(([\d,\s]+)\)")


def definition_of_text(name: str, source_type: str) -> ColumnDefinition:
    """A definition from COLUMN_TYPE alone (`int(10) unsigned`, `enum('a','b')`)."""
    text = source_type.split("/*", maxsplit=1)[0].strip()
    data_type = re.split(r"[ (]", text.lower(), maxsplit=1)[0]
    if data_type in LABELS:
        return ColumnDefinition(name, data_type, text, labels=read_labels(text))
    match = _ARGUMENTS.search(text)
    numbers = [int(number) for number in match[1].split(",")] if match else []
    first = numbers[0] if numbers else None
    return ColumnDefinition(
        name,
        data_type,
        text,
        precision=first,
        scale=numbers[1] if len(numbers) > 1 else None,
        fsp=first or 0 if data_type in ("time", "datetime", "timestamp") else 0,
        length=first,
        unsigned="unsigned" in text.lower(),
    )


def signature(definition: ColumnDefinition) -> Signature:  # noqa: PLR0911 - one for each family of types
    """What the log's type and metadata say of such a column; equal signatures are decoded alike."""
    name, parsed = definition.data_type, definition_of_text(definition.name, definition.column_type)
    if name in _INT_BITS:
        return (name, definition.unsigned)
    if name in ("float", "double"):
        return (name, definition.unsigned)
    if name == "decimal":
        return (name, parsed.precision or 10, parsed.scale or 0, definition.unsigned)
    if name == "bit":
        return (name, parsed.precision or 1)
    if name in ("time", "datetime", "timestamp"):
        return (name, definition.fsp)
    if name in LABELS:
        return (name, definition.labels)
    if name in ("char", "varchar", "binary", "varbinary"):
        return (name, 1 if parsed.length is None else parsed.length)
    if name in _BINARY_FORMS:
        return ("binary", _BINARY_FORMS[name])
    if name in _TEXT_SIZES:
        return ("text", _TEXT_SIZES[name])
    if name in _BLOB_SIZES:
        return ("blob", _BLOB_SIZES[name])
    return ("geometrycollection",) if name == "geomcollection" else (name,)


def column_signature(column: Column) -> Signature:
    """As `signature`, from what a schema keeps."""
    return signature(definition_of_text(column.name, column.source_type))


def preserving(old: Column, new: Column) -> bool:
    """True where every value is known to stay the same, and the target can change the column in place.

    How sql_mode treats values that do not fit does not matter: all of them fit.
    """
    if old.type != new.type and not widens(old.type, new.type):
        return False
    if old.nullable and not new.nullable:
        return False
    if old.source_type == new.source_type:
        return True
    before, after = definition_of_text(old.name, old.source_type), definition_of_text(new.name, new.source_type)
    if after.unsigned and not before.unsigned:
        return False
    return _widened(before, after)


def _rounds(definition: ColumnDefinition) -> bool:
    """FLOAT(M,D) or DOUBLE(M,D).

    Where an ALTER TABLE has changed D in place, rows keep more digits, until any later one copies the table.
    """
    return definition.data_type in ("float", "double") and "," in definition.column_type


def _widened(old: ColumnDefinition, new: ColumnDefinition) -> bool:  # noqa: PLR0911 - one for each pair of types
    match (signature(old), signature(new)):
        case ((str(a), bool(was)), (str(b), bool(now))) if a in _INT_BITS and b in _INT_BITS:
            return _INT_BITS[b] >= _INT_BITS[a] if was == now else _INT_BITS[b] > _INT_BITS[a]
        case ((str(a), int(was), *scale), (str(b), int(now), *other)) if (a, b) in _GROWING:
            return now >= was and scale == other
        case (("float" | "double" as a, _), ("float" | "double" as b, _)):  # a number of digits rounds
            return b in (a, "double") and not _rounds(new)
        case (("varchar", int(was), *_), ("text", int(size), *_)):
            return was * 4 < 1 << 8 * size
        case (("varbinary", int(was), *_), ("blob", int(size), *_)):
            return was < 1 << 8 * size
        case (("enum" | "set" as a, tuple(was)), ("enum" | "set" as b, tuple(now))):
            return a == b and now[: len(was)] == was
        case (before, after):
            return before == after and old.data_type == new.data_type and old.data_type in _TOLD_IN_FULL


def recased(old: TableSchema, new: TableSchema) -> dict[str, str]:
    """Columns that have their name in another case now, {old: new}: to the servers they are the same."""
    before = {column.name.casefold(): column.name for column in old.columns if column.name not in new.names}
    names = [column.name for column in new.columns if column.name not in old.names]
    return {before[name.casefold()]: name for name in names if name.casefold() in before}


def is_value_preserving(old: TableSchema, new: TableSchema, announced: Collection[str] = ()) -> bool:
    """True where `new` came out of `old` without changing a value of any row, regardless of the statement.

    `announced`: columns that are known to have been added with NULL in every row.
    """
    known = {column.name.casefold(): column for column in old.columns}
    added = {name.casefold() for name in announced}
    return all(
        preserving(known[name], column) if (name := column.name.casefold()) in known else name in added
        for column in new.columns
    )


@dataclass(frozen=True)
class Alteration:
    """The schema afterwards.

    `assumed`: text columns whose character set the statement did not name, with that of the catalog.
    """

    schema: TableSchema
    renamed: dict[str, str] = field(default_factory=dict)
    reload: bool = False
    assumed: dict[str, str] = field(default_factory=dict)


def alter(
    old: TableSchema,
    clauses: Sequence[Clause],
    present: TableDescription | None,
    charsets: Mapping[str, str],
    assumed: Mapping[str, str] = MappingProxyType({}),
) -> Alteration:
    """Apply `clauses` to `old`.  `present` is the catalog's view now, which may be that of a later statement.

    `charsets`: the character set of each text column before, where known.  `assumed`: those that an earlier statement
    may have
    changed: what another one makes of these columns is not known.
    """
    kinds = {clause.kind for clause in clauses}
    if ClauseKind.UNKNOWN in kinds:
        return Alteration(present.schema if present else old, {}, reload=True)
    columns, renamed = _columns(old, clauses)
    touched = {c.to.casefold() for c in clauses if c.kind in (ClauseKind.ADD, ClauseKind.MODIFY)}
    keyed = {c.to.casefold() for c in clauses if c.kind is ClauseKind.KEY}
    computed = present is not None and any(definition.is_generated for definition in present.definitions)
    reload = bool(kinds & {ClauseKind.ROWS, ClauseKind.TAKEN}) or any(clause.fills for clause in clauses)
    if kinds - {ClauseKind.RENAME_TABLE}:
        reload = reload or any(_rounds(definition_of_text(one.name, one.source_type)) for one in old.columns)
    before = {column.name.casefold() for column in old.columns}
    added = {c.to.casefold() for c in clauses if c.kind is ClauseKind.ADD}
    found = {column.name.casefold(): column for column in present.schema.columns} if present else {}
    result, named = [], {name: charset for name, charset in assumed.items() if name in old.names}
    for name, was in columns:
        now = found.get(name.casefold())
        if was is None:
            result += [now] if now else []  # it has another name now, or is gone: a later statement tells
            reload = reload or name.casefold() in before  # dropped and added: the old values are not the new column's
            reload = reload or (now is not None and name.casefold() not in added)  # what it holds was never seen
            continue
        # CONVERT makes mediumtext of text where the new character set takes more bytes.
        expected = name.casefold() in touched or (ClauseKind.CONVERT in kinds and was.type.kind is Kind.STRING)
        same = now is not None and now.type == was.type and column_signature(now) == column_signature(was)
        # The name is the log's: the catalog may have it in the case of a later statement, which would be another column
        # to the target.
        column = replace(now if now is not None and (expected or same) else was, name=name)
        said = [c.declared for c in clauses if c.kind is ClauseKind.MODIFY and c.to.casefold() == name.casefold()]
        kept = preserving(replace(was, name=name), column) and all(_as_declared(was, column, one) for one in said)
        if kept and (expected or ClauseKind.CONVERT in kinds):
            said += [c.declared for c in clauses if c.kind is ClauseKind.CONVERT]
            charset = next((one.charset for one in said if one.charset), "")
            if not charset and (charset := _present_charset(column, present)):
                named[column.name] = charset
            kept = was.name not in assumed and _text_kept(was, column, charset, charsets)
            # The servers give labels other characters in CONVERT, but for those of one character set.
            labelled = definition_of_text(name, was.source_type).data_type in LABELS
            kept = kept and not (labelled and ClauseKind.CONVERT in kinds and charset != charsets.get(was.name))
        reload = reload or not kept or (was.nullable and name.casefold() in keyed)
        # A generated column may tell of its column's type: CONCAT of a ZEROFILL, OCTET_LENGTH, a comparison by
        # collation.
        reload = reload or (computed and expected)
        result.append(column)
    if present and {c.name.casefold() for c in result} == found.keys():
        places = list(found)
        result.sort(key=lambda column: places.index(column.name.casefold()))
    key, comment = _key(old, result, renamed, present), (present.schema if present else old).comment
    schema = TableSchema(old.table, tuple(result), key, comment=comment)
    return Alteration(schema, renamed, reload, {renamed.get(name, name): named[name] for name in named})


def _columns(old: TableSchema, clauses: Sequence[Clause]) -> tuple[list[tuple[str, Column | None]], dict[str, str]]:
    """The names afterwards with the columns before (None: new, or not seen so far), and the renames.

    Names compare without case.
    """
    columns: list[tuple[str, Column | None]] = [(column.name, column) for column in old.columns]
    present = {column.name.casefold() for column in old.columns}
    dropped = {clause.column.casefold() for clause in clauses if clause.kind is ClauseKind.DROP}
    renames = {
        clause.column.casefold(): clause.to
        for clause in clauses
        if clause.kind in (ClauseKind.RENAME, ClauseKind.MODIFY)  # MODIFY in another case is a new name, too
    }
    columns = [(renames.get(n.casefold(), n), c) for n, c in columns if n.casefold() not in dropped]
    taken = {name.casefold() for name, _ in columns}
    columns += [
        (clause.to, None)
        for clause in clauses
        if (
            clause.kind is ClauseKind.ADD
            or (clause.kind in (ClauseKind.RENAME, ClauseKind.MODIFY) and clause.column.casefold() not in present)
        )
        and clause.to.casefold() not in taken
    ]
    return columns, {c.name: name for name, c in columns if c is not None and c.name != name}


def _as_declared(was: Column, now: Column, declared: DeclaredColumn) -> bool:
    """True where the statement made the column what it is taken for: a later one may have hidden that values were
    cut.
    """
    if was.nullable and declared.not_null:
        return False
    if declared.column_type == "json":  # MariaDB's is a longtext
        return column_signature(now) in {("json",), ("text", 4)}
    definition = definition_of_text(now.name, declared.column_type)
    return signature(definition) == column_signature(now) and not _rounds(definition)


def _present_charset(column: Column, present: TableDescription | None) -> str:
    definitions = present.definitions if present is not None else ()
    return next((one.charset or "" for one in definitions if one.name.casefold() == column.name.casefold()), "")


def _text_kept(was: Column, now: Column, charset: str, charsets: Mapping[str, str]) -> bool:
    """True where a text column's characters all exist in `charset` (empty: not known), and their bytes have room."""
    after = definition_of_text(now.name, now.source_type).data_type
    if was.type.kind is not Kind.STRING or after not in TEXTS | LABELS:
        return True
    before = charsets.get(was.name, "")
    if charset and charset == before:
        return True
    size = _TEXT_SIZES.get(definition_of_text(was.name, was.source_type).data_type, 0)
    room = not size or _TEXT_SIZES.get(after, 0) > size or (before, charset) == ("utf8mb3", "utf8mb4")
    return charset in _EVERY_CHARACTER and room


def _key(
    old: TableSchema, columns: Sequence[Column], renamed: Mapping[str, str], present: TableDescription | None
) -> tuple[str, ...]:
    names = {column.name.casefold(): column.name for column in columns}
    if present and names.keys() >= {name.casefold() for name in present.schema.key}:
        return tuple(names[name.casefold()] for name in present.schema.key)
    key = tuple(renamed.get(name, name) for name in old.key)
    return key if set(names.values()).issuperset(key) else ()
