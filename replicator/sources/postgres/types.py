"""The one mapping of Postgres column types; catalog, snapshot and log all use it.

Its part of docs/types.md is `type_document()`.  Sources: PostgreSQL 18 manual chapter 8,
src/include/catalog/pg_type.dat.
"""

from __future__ import annotations

from dataclasses import dataclass

from replicator.errors import UnsupportedType
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.model.types import DataType, Kind
from replicator.sources.postgres.catalog.attributes import Attribute, PgType

CATALOG = "pg_catalog"
# Types with values that no calendar of the target has: infinity, years before 1 or after 9999.  What becomes of them is
# a policy.
DATES = frozenset({"date", "timestamp", "timestamptz"})
DATE_REMEDY = (
    "Correct the row on the source, or choose another policy for dates that do not exist (for a key column only 'text' "
    "is left); then resnapshot the table."
)
NUMERIC_REMEDY = (
    "Correct the row on the source, or give the column the type numeric without a precision (it is then kept as text),"
    " or exclude the column from the replicator; then resnapshot the table."
)
_SCALAR = {
    "bool": types.BOOLEAN,
    "int2": types.INT,
    "int4": types.INT,
    "int8": types.BIGINT,
    "oid": types.BIGINT,
    "float4": types.FLOAT,
    "float8": types.DOUBLE,
    "bytea": types.BINARY,
    "date": types.DATE,
    "timestamp": types.TIMESTAMP_NTZ,
    "timestamptz": types.TIMESTAMP,
}
# Of pg_catalog: the text of a value follows from the value alone, under the settings that `connection.connect` makes.
# Not here: regclass and its kin, and aclitem, which show names that change without the row being written.
_TEXT = frozenset(
    {"text", "varchar", "bpchar", "char", "name", "json", "jsonb", "jsonpath", "uuid", "xml", "refcursor"}
)
_TEXT |= frozenset({"inet", "cidr", "macaddr", "macaddr8", "interval", "time", "timetz", "bit", "varbit", "money"})
_TEXT |= frozenset({"point", "line", "lseg", "box", "path", "polygon", "circle", "tsvector", "tsquery"})
_TEXT |= frozenset({"pg_lsn", "pg_snapshot", "txid_snapshot", "xid", "xid8", "cid", "tid", "int2vector", "oidvector"})
# Of extensions, which can be in any schema.
_EXTENSIONS = frozenset({"citext", "hstore", "ltree", "lquery", "ltxtquery", "cube", "seg", "query_int"})
_EXTENSIONS |= frozenset({"ean13", "isbn", "isbn13", "ismn", "ismn13", "issn", "issn13", "upc"})
_EXTENSIONS |= frozenset({"geometry", "geography", "box2d", "box3d", "vector", "halfvec", "sparsevec"})
_COMPOSED = frozenset({"c", "e", "m", "r"})
_HEADER = 4  # a numeric's modifier is (precision << 16 | scale) + 4, the scale in 11 bits with sign
_SCALE_BITS = 0x7FF
_SCALE_SIGN = 0x400


def column_of(attribute: Attribute, table: TableId, *, zero_dates: str = "null", key: bool = False) -> Column:
    """The column as Tidemark keeps it.  Raises UnsupportedType.

    With zero_dates "null", a NOT NULL column that can hold an infinite date is nullable here; a key column stays as it
    is, and such a date in it stops the table.
    """
    data_type = data_type_of(attribute, table, zero_dates=zero_dates)
    nullable = attribute.nullable or (zero_dates == "null" and dated(attribute))
    warning = warning_of(attribute, data_type)
    text, nullable = attribute.type_text, nullable and not key
    return Column(attribute.name, data_type, nullable, text, warning, attribute.number, comment=attribute.comment)


def data_type_of(attribute: Attribute, table: TableId, *, zero_dates: str = "null") -> DataType:
    """The type that holds every value of the column.  Raises UnsupportedType."""
    pg_type, typmod = attribute.plain
    if zero_dates == "text" and dated(attribute):
        return types.STRING
    if pg_type.schema == CATALOG and pg_type.name == "numeric":
        return _numeric(typmod)
    if pg_type.schema == CATALOG and pg_type.name in _SCALAR:
        return _SCALAR[pg_type.name]
    if not _has_text(pg_type):
        message = (
            f"Column {attribute.name} of {table} has the type {attribute.type_text or pg_type.name}, which Tidemark"
            " does not know."
        )
        raise UnsupportedType(message, table=str(table), column=attribute.name)
    return types.STRING


def dated(attribute: Attribute) -> bool:
    """Can it hold a date that the target cannot?"""
    pg_type = attribute.plain[0]
    return pg_type.schema == CATALOG and pg_type.name in DATES


def warning_of(attribute: Attribute, data_type: DataType) -> str:
    """What the target's column is less than the source's; empty for most."""
    pg_type, typmod = attribute.plain
    if pg_type.schema != CATALOG or pg_type.name != "numeric" or data_type.kind is not Kind.STRING:
        return ""
    text = attribute.type_text or pg_type.name
    if typmod < _HEADER:
        return f"{text} has no fixed precision: it becomes text."
    precision, scale = numeric_size(typmod)
    if precision > types.MAX_DECIMAL_PRECISION:
        return f"{text} has more than {types.MAX_DECIMAL_PRECISION} digits: it becomes text."
    return f"{text} has the scale {scale}, which no decimal({precision},…) has: it becomes text."


def numeric_size(typmod: int) -> tuple[int, int]:
    """Precision and scale of a numeric's modifier, which must not be -1 (src/backend/utils/adt/numeric.c)."""
    packed = typmod - _HEADER
    return packed >> 16 & 0xFFFF, ((packed & _SCALE_BITS) ^ _SCALE_SIGN) - _SCALE_SIGN


def numeric_typmod(precision: int, scale: int) -> int:
    """Inverse of `numeric_size`."""
    return (precision << 16 | scale & _SCALE_BITS) + _HEADER


def _numeric(typmod: int) -> DataType:
    if typmod < _HEADER:
        return types.STRING
    precision, scale = numeric_size(typmod)
    if not 0 <= scale <= precision <= types.MAX_DECIMAL_PRECISION:
        return types.STRING
    return types.decimal(precision, scale)


def _has_text(pg_type: PgType) -> bool:
    """Is the server's text of a value exact, regardless of session and time?"""
    if pg_type.base is not None:
        return _has_text(pg_type.base)
    if pg_type.kind in _COMPOSED:
        return all(map(_has_text_inside, pg_type.parts))
    if pg_type.schema == CATALOG and pg_type.name in _TEXT:
        return True
    if pg_type.element is not None:
        return _has_text_inside(pg_type.element)
    return pg_type.kind == "b" and pg_type.schema != CATALOG and pg_type.name in _EXTENSIONS


def _has_text_inside(part: PgType) -> bool:
    """The same of an element or a field, which is text regardless of what a column of its type becomes."""
    plain = part.base or part
    return _has_text(plain) or (plain.schema == CATALOG and plain.name in {*_SCALAR, "numeric"})


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A row of docs/types.md."""

    source: str
    target: str
    note: str


_CALENDAR = "infinity and years before 1 or after 9999: null, text or fail by policy"
_SAMPLES: tuple[tuple[str, PgType, int, str], ...] = (
    ("boolean", PgType(0, "bool"), -1, ""),
    ("smallint, integer, serial", PgType(0, "int4"), -1, ""),
    ("bigint, bigserial", PgType(0, "int8"), -1, ""),
    ("oid", PgType(0, "oid"), -1, ""),
    ("real", PgType(0, "float4"), -1, "NaN, infinities and negative zero kept"),
    ("double precision", PgType(0, "float8"), -1, "NaN, infinities and negative zero kept"),
    (
        "numeric(p,s), 0 <= s <= p <= 38, such as numeric(38,10)",
        PgType(0, "numeric"),
        numeric_typmod(38, 10),
        "precision and scale kept; NaN stops the table",
    ),
    ("numeric without precision", PgType(0, "numeric"), -1, "the exact text, NaN and infinities too, with a warning"),
    ("numeric(p,s), p > 38 or s < 0 or s > p", PgType(0, "numeric"), numeric_typmod(65, 30), "as text, with a warning"),
    ("character(n)", PgType(0, "bpchar"), -1, "padded with blanks to n characters"),
    ("character varying, text, name, citext", PgType(0, "varchar"), -1, "the encoding of the database does not matter"),
    ("bytea", PgType(0, "bytea"), -1, ""),
    ("date", PgType(0, "date"), -1, _CALENDAR),
    ("timestamp without time zone", PgType(0, "timestamp"), -1, f"without zone; {_CALENDAR}"),
    ("timestamp with time zone", PgType(0, "timestamptz"), -1, f"an instant, in UTC; {_CALENDAR}"),
    ("time, time with time zone, interval", PgType(0, "interval"), -1, "the server's text (IntervalStyle postgres)"),
    ("json", PgType(0, "json"), -1, "the text as it was written"),
    ("jsonb", PgType(0, "jsonb"), -1, "the server's text"),
    ("uuid", PgType(0, "uuid"), -1, "lower-case text with hyphens"),
    ("inet, cidr, macaddr, macaddr8", PgType(0, "inet"), -1, "the server's text"),
    ("bit, bit varying", PgType(0, "bit"), -1, "the digits"),
    ("money", PgType(0, "money"), -1, "the server's text (lc_monetary C)"),
    ("xml", PgType(0, "xml"), -1, "the server's text, without an encoding declaration"),
    ("point, line, lseg, box, path, polygon, circle", PgType(0, "point"), -1, "the server's text"),
    ("tsvector, tsquery, jsonpath, pg_lsn, xid and the like", PgType(0, "tsvector"), -1, "the server's text"),
    ("arrays", PgType(0, "_int4", element=PgType(0, "int4")), -1, "the server's text: `{1,NULL,3}`"),
    ("ranges, multiranges", PgType(0, "int4range", kind="r"), -1, "the server's text: `[1,6)`"),
    ("enum", PgType(0, "mood", "public", "e"), -1, "the label"),
    ("composite types", PgType(0, "pair", "public", "c"), -1, "the server's text: `(1,)`"),
    ("hstore, ltree, cube, seg, intarray, isn", PgType(0, "hstore", "public"), -1, "the server's text"),
    ("PostGIS, pgvector", PgType(0, "geometry", "public"), -1, "the server's text: EWKB in hexadecimal, `[1,2,3]`"),
)


def type_table() -> list[TypeRow]:
    """Every type that is mapped, computed by the mapping itself."""
    table = TableId("", "")
    rows = [
        TypeRow(source, str(data_type_of(Attribute("", 1, pg_type, typmod), table)), note)
        for source, pg_type, typmod, note in _SAMPLES
    ]
    return [
        *rows,
        TypeRow("domains", "that of their base type", ""),
        TypeRow(
            "regclass and its kin, aclitem, and what has them inside",
            "refused",
            "their text changes with what they name",
        ),
        TypeRow("anything else", "refused", "the table stops with a message that names the column"),
    ]


def type_document() -> str:
    """The part of docs/types.md that is Postgres."""
    head = "## Postgres\n\n| source | Tidemark, Spark, Iceberg | note |\n|---|---|---|\n"
    rows = "".join(f"| {row.source} | `{row.target}` | {row.note} |\n" for row in type_table())
    return (
        f"{head}{rows}\nText is the server's own, under fixed settings: DateStyle ISO, IntervalStyle postgres, TimeZone"
        " UTC, extra_float_digits 3, bytea_output hex, lc_monetary C.\n"
    )
