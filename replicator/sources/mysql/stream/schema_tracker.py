"""The schema that holds at a place in the log: from TABLE_MAPs, with the catalog for what the log does not say.

With binlog_row_metadata=FULL a TABLE_MAP has names, types, signs, character sets, labels, nullability and the key (the
primary key, or the first unique index over whole NOT NULL columns, which servers take for it).  It does not tell UUID
from BINARY(16), nor COLUMN_TYPE's text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from replicator.errors import TableError, UnsupportedCharset, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, RESERVED, Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.charsets import charset_name, decoder
from replicator.sources.mysql.ddl.alter_table import Signature, column_signature, is_value_preserving, signature
from replicator.sources.mysql.names import columns_left_out, lowered
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import LogColumn, TableMap
from replicator.sources.mysql.rows.table_map_completion import complete
from replicator.sources.mysql.types import ColumnDefinition, column_of, old_format
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.descriptions import check_left_out

Describe = Callable[[TableId], TableDescription | TableError | None]
Further = Callable[[Collection[TableId], Collection[str]], bool]

METADATA_REMEDY = (
    "SET GLOBAL binlog_row_metadata = 'FULL'; then reconnect the writing sessions and resnapshot the table."
)
_INTS = {t.TINY: "tinyint", t.SHORT: "smallint", t.INT24: "mediumint", t.LONG: "int", t.LONGLONG: "bigint"}
_NUMBERS = {t.FLOAT: "float", t.DOUBLE: "double", t.YEAR: "year", t.DATE: "date", t.NEWDATE: "date"}
_TIMES = {
    t.TIME: "time", t.TIME2: "time", t.DATETIME: "datetime", t.DATETIME2: "datetime", t.TIMESTAMP: "timestamp",
    t.TIMESTAMP2: "timestamp",
}  # fmt: skip
_OLD_TIMES = frozenset({t.TIME, t.DATETIME, t.TIMESTAMP})
_GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"
)  # fmt: skip
_TEXTS = {1: "tinytext", 2: "text", 3: "mediumtext", 4: "longtext"}
_BLOBS = {1: "tinyblob", 2: "blob", 3: "mediumblob", 4: "longblob"}
_BYTES_PER_CHARACTER = {
    "utf8mb4": 4, "utf8mb3": 3, "utf16": 4, "utf16le": 4, "utf32": 4, "gb18030": 4, "ujis": 3, "eucjpms": 3, "ucs2": 2,
    "sjis": 2, "cp932": 2, "gbk": 2, "gb2312": 2, "big5": 2, "euckr": 2,
}  # fmt: skip
_ZERO_DATES = frozenset({t.DATE, t.NEWDATE, t.DATETIME, t.DATETIME2, t.TIMESTAMP, t.TIMESTAMP2})
_OPAQUE = {"uuid": "binary(16)", "inet6": "binary(16)", "inet4": "binary(4)"}
_AMBIGUOUS = frozenset({("binary", 4), ("binary", 16)})  # signatures: BINARY(n), or one of those
_STRINGS = frozenset({t.STRING, t.VAR_STRING})


def definition_of(log: LogColumn) -> ColumnDefinition:
    """A column's definition from the log alone; UnsupportedType, UnsupportedCharset."""
    name, fsp = log.name, 0
    if log.type in _INTS:
        text = _INTS[log.type] + (" unsigned" if log.unsigned else "")
    elif log.type in _NUMBERS:
        text = _NUMBERS[log.type] + (" unsigned" if log.unsigned and log.type in (t.FLOAT, t.DOUBLE) else "")
    elif log.type in _TIMES:
        fsp = log.metadata if log.type in (t.TIME2, t.DATETIME2, t.TIMESTAMP2) else 0
        text = _TIMES[log.type] + (f"({fsp})" if fsp else "")
    elif log.type == t.NEWDECIMAL:
        text = f"decimal({log.metadata >> 8},{log.metadata & 0xFF})" + (" unsigned" if log.unsigned else "")
    elif log.type == t.BIT:
        text = f"bit({log.metadata})"
    elif log.type in (t.ENUM, t.SET) and not log.labels:
        text = "bigint unsigned"  # without metadata: the number
    elif log.type in (t.ENUM, t.SET):
        return _labelled(log)
    elif log.type in (t.JSON, t.VECTOR):
        text = "json" if log.type == t.JSON else "vector"
    elif log.type == t.GEOMETRY:
        text = _GEOMETRIES[log.geometry or 0]
    else:
        return _string(log)
    data_type = text.split("(")[0].split(" ")[0]
    precision = {"decimal": log.metadata >> 8, "bit": log.metadata}.get(data_type)
    scale = log.metadata & 0xFF if data_type == "decimal" else None
    return ColumnDefinition(
        name,
        data_type,
        text,
        precision=precision,
        scale=scale,
        fsp=fsp,
        unsigned="unsigned" in text,
        nullable=log.nullable,
    )


def _labelled(log: LogColumn) -> ColumnDefinition:
    charset = charset_name(log.charset or t.BINARY_CHARSET)
    charset = "utf8mb4" if charset == "binary" else charset
    decode = decoder(charset)
    try:
        labels = tuple(decode(label) for label in log.labels)
    except UnicodeDecodeError:
        message = f"Column {log.name} has labels that are not valid {charset}."
        raise UnsupportedCharset(message) from None
    data_type = "enum" if log.type == t.ENUM else "set"
    text = ",".join("'" + label.replace("\\", "\\\\").replace("'", "''") + "'" for label in labels)
    return ColumnDefinition(log.name, data_type, f"{data_type}({text})", charset, labels=labels, nullable=log.nullable)


def _string(log: LogColumn) -> ColumnDefinition:
    charset = "binary" if log.charset is None else charset_name(log.charset)
    size = log.metadata - (log.type == t.VARCHAR_COMPRESSED)
    characters = size // _BYTES_PER_CHARACTER.get(charset, 1)
    if log.type in _STRINGS or log.type in (t.VARCHAR, t.VARCHAR_COMPRESSED):
        fixed = log.type in _STRINGS
        if charset == "binary":
            text = f"binary({size})" if fixed else f"varbinary({size})"
        else:
            text = f"char({characters})" if fixed else f"varchar({characters})"
    elif log.type in (t.BLOB, t.BLOB_COMPRESSED, t.TINY_BLOB, t.MEDIUM_BLOB, t.LONG_BLOB):
        text = (_BLOBS if charset == "binary" else _TEXTS)[log.metadata]
    else:
        message = f"Column {log.name!r} has type {log.type} in the log, which is not supported."
        raise UnsupportedType(message)
    charset_or_none = None if charset == "binary" else charset
    return ColumnDefinition(log.name, text.split("(")[0], text, charset_or_none, length=size, nullable=log.nullable)


class Resolved(NamedTuple):
    """A table's schema at a TABLE_MAP.  `known`: the one before, None for a table that was not there."""

    schema: TableSchema
    known: TableSchema | None
    reload: bool

    @property
    def changed(self) -> bool:
        """True where a SchemaChange must come first."""
        return self.schema != self.known or self.reload


class LogSchemas:
    """Schemas while the log is read; `describe` and `further` ask the catalog (None: reading files)."""

    def __init__(
        self,
        tables: TableSet,
        schemas: Mapping[TableId, TableSchema],
        options: ReadOptions,
        describe: Describe | None,
        further: Further | None = None,
    ) -> None:
        self.current = dict(schemas)
        self.empty: set[TableId] = set()  # created in the log, without rows so far
        # Columns that a statement added, NULL in every row, which the catalog has no more.
        self.announced: dict[TableId, set[str]] = {}
        # Their definition is the log's own: a TABLE_MAP's, and that of statements which leave nothing to the catalog.
        # Others are the catalog's, where another table may have had the name by then; a reader that begins knows no
        # more of any.
        self.certain: set[TableId] = set()
        # Character sets that statements did not name, as the catalog had them then: the next TABLE_MAP tells.
        self.assumed: dict[TableId, dict[str, str]] = {}
        # Their definition is younger in the catalog than in the log, which does not say enough: until the statement
        # that changed it comes.
        self.overtaken: set[TableId] = set()
        # Columns to which a statement gave a type that the log does not tell from BINARY(n).
        self._declared: dict[TableId, dict[str, str]] = {}
        self._maps: dict[TableId, TableMap] = {}
        self._tables = tables
        self._options = options
        self._describe = describe
        self._further = further

    @property
    def asks(self) -> bool:
        """False while files are read."""
        return self._describe is not None

    def declare(self, table: TableId, columns: Mapping[str, str]) -> None:
        """Types by column, as a statement named them."""
        if columns:
            self._declared.setdefault(table, {}).update(columns)

    def renamed(self, pairs: Sequence[tuple[TableId, TableId]]) -> None:
        """What is known of a table holds under its new name."""
        for old, new in pairs:
            if (declared := self._declared.pop(old, None)) is not None:
                self._declared[new] = declared
            last, announced, certain = self._maps.get(old), self.announced.get(old), old in self.certain
            assumed = self.assumed.get(old)
            self.forget(old)
            self.forget(new)
            if last is not None:
                self._maps[new] = last
            if announced is not None:
                self.announced[new] = announced
            if assumed is not None:
                self.assumed[new] = assumed
            if certain:
                self.certain.add(new)

    def forget(self, table: TableId) -> None:
        """What was seen under this name is not the table's that has it from here on."""
        self._maps.pop(table, None)
        self.assumed.pop(table, None)
        self.announced.pop(table, None)
        self.certain.discard(table)
        self.overtaken.discard(table)

    def charsets(self, table: TableId) -> dict[str, str]:
        """Character sets of text columns as of the last TABLE_MAP."""
        last = self._maps.get(table)
        if last is None:
            return {}
        return {column.name: charset_name(column.charset) for column in last.columns if column.charset is not None}

    def columns(self, table: TableId) -> tuple[LogColumn, ...]:
        """The log's columns as of the last TABLE_MAP."""
        return self._maps[table].columns

    def present(self, table: TableId) -> TableDescription | None:
        """Return the catalog's description; None if the table is gone or there is no catalog.

        Raises the TableError of a table that cannot be replicated.
        """
        found = self._describe(table) if self._describe else None
        if isinstance(found, TableError):
            raise found
        return found

    def further(self, tables: Collection[TableId], calls: Collection[str]) -> bool:
        """May a statement on these tables, with these calls, have changed others?"""
        return self._further is not None and self._further(tables, calls)

    def resolve(self, found: TableMap) -> Resolved:
        """The schema for this TABLE_MAP; TableError where it cannot be known exactly."""
        table, known = found.table, self.current.get(found.table)
        if not found.named:
            if self._describe is not None:
                message = f"The log does not name the columns of {table}."
                raise TableError(message, remedy=METADATA_REMEDY, table=str(table))
            found = positional(found)
        present = cache(partial(self.present, table))
        left_out = columns_left_out(self._tables, table)
        names = {lowered(column.name) for column in found.columns}
        if known is not None and names - left_out - set(map(lowered, known.names)):
            check_left_out(table, left_out, names)
        if found.mariadb and self._describe is not None:
            _check_left_out(found, left_out, present)
        try:
            found = complete(found, left_out, known, present)
        except UnsupportedCharset:
            self.overtaken.add(table)
            raise
        schema = self._build(found, known, None if known else present())
        if known and self._describe is not None and schema != known:
            schema = self._build(found, known, present())
        announced = self.announced.pop(table, set())
        harmless = self._as_assumed(found) and known is not None and is_value_preserving(known, schema, announced)
        reload = table not in self.empty and not harmless and self._describe is not None
        self.current[table], self._maps[table] = schema, found
        if not (found.mariadb and any(column_signature(column) in _AMBIGUOUS for column in schema.columns)):
            self.certain.add(table)
        return Resolved(schema, known, reload)

    def _as_assumed(self, found: TableMap) -> bool:
        assumed = self.assumed.pop(found.table, {})
        charsets = {one.name: charset_name(one.charset) for one in found.columns if one.charset is not None}
        return all(charsets.get(name, charset) == charset for name, charset in assumed.items())

    def _build(
        self, found: TableMap, known: TableSchema | None, present: TableDescription | None = None
    ) -> TableSchema:
        left_out = columns_left_out(self._tables, found.table)
        if found.mariadb:
            _check_temporal(
                found, [schema for schema in (present.schema if present else None, known) if schema], left_out
            )
        key = _key(found, left_out)
        columns = tuple(
            self._column(column, found.table, known, present, in_key=column.name in key)
            for column in found.columns
            if lowered(column.name) not in left_out and (not column.hidden or _described(column.name, known, present))
        )
        said = present.schema if present else known
        return TableSchema(found.table, columns, key, comment=said.comment if said else "")

    def _column(
        self,
        log: LogColumn,
        table: TableId,
        known: TableSchema | None,
        present: TableDescription | None,
        *,
        in_key: bool,
    ) -> Column:
        definition = definition_of(log)
        wanted = _log_signature(definition)
        nullable = log.nullable or (date_policy(self._options) == "null" and log.type in _ZERO_DATES)
        for schema in (known, present.schema if present else None):
            column = _named(schema, log.name) if schema else None
            if column is None:
                continue
            if column_signature(column) == wanted or (
                present and schema is present.schema and signature(present.definition(column.name)) == wanted
            ):
                return replace(column, name=log.name, nullable=nullable and not in_key)
        _check_name(log.name, table)
        declared = self._declared.get(table, {}).get(log.name)
        if declared is not None and definition.column_type == _OPAQUE[declared]:
            definition = ColumnDefinition(log.name, declared, declared, nullable=log.nullable)
        return column_of(definition, table, zero_dates=date_policy(self._options), key=in_key)


def _key(found: TableMap, left_out: frozenset[str]) -> tuple[str, ...]:
    """The one that the log shows, and no other.

    What the catalog says may be of a later statement, or of another table that has the name by now; and under a key
    that is none, several rows would become one.
    """
    logged = tuple(found.columns[place].name for place in found.key)
    return () if left_out.intersection(map(lowered, logged)) else logged


def _named(schema: TableSchema, name: str) -> Column | None:
    """Names of columns compare without case; the catalog may have that of a later statement."""
    if name in schema.names:
        return schema.column(name)
    return next((column for column in schema.columns if lowered(column.name) == lowered(name)), None)


def _described(name: str, known: TableSchema | None, present: TableDescription | None) -> bool:
    """Has the catalog described this column?  It never shows hidden ones."""
    schemas = (known, present.schema if present else None)
    return any(_named(schema, name) is not None for schema in schemas if schema is not None)


def _log_signature(definition: ColumnDefinition) -> Signature:
    return signature(definition)


def _check_temporal(found: TableMap, schemas: list[TableSchema], left_out: frozenset[str]) -> None:
    """With mysql56_temporal_format=OFF MariaDB logs TIME(3) as it logs TIME, but longer: only the catalog knows it."""
    for log in found.columns:
        if log.type not in _OLD_TIMES or lowered(log.name) in left_out:
            continue
        known = [column_signature(column) for schema in schemas if (column := _named(schema, log.name)) is not None]
        if (_TIMES[log.type], 0) not in known[:1]:
            raise old_format(log.name, found.table)


def _check_left_out(found: TableMap, left_out: frozenset[str], present: Callable[[], TableDescription | None]) -> None:
    """The values behind one that is left out are found by its length, for which the catalog vouches: it refuses what
    has fractions.
    """
    old = [log.name for log in found.columns if log.type in _OLD_TIMES and lowered(log.name) in left_out]
    if old and present() is None:
        raise old_format(old[0], found.table)


def positional(found: TableMap) -> TableMap:
    """Names `@1`, `@2` … as mysqlbinlog gives them; a number whose sign is not logged counts as signed."""
    columns = tuple(replace(column, name=f"@{place}") for place, column in enumerate(found.columns, 1))
    return replace(found, columns=columns)


def _check_name(name: str, table: TableId) -> None:
    if name.lower() in RESERVED or name.lower().startswith(BEFORE):
        message = f"Column {name} of {table} has a name that is reserved by Tidemark."
        raise UnsupportedType(message, table=str(table))
