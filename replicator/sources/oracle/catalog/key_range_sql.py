"""Key ranges in the server's own SQL: the literals, the comparisons, the order.

A key value travels as an SQL literal that the server compares exactly as ORDER BY orders the column: sessions have
NLS_SORT and NLS_COMP BINARY.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.dialect import ORACLE, literal, quoted
from replicator.sources.oracle.types import XML, ColumnDefinition, Form, ValueType
from replicator.sources.shared.key_ranges import KeyRanges

SECONDS = "SYYYY-MM-DD HH24:MI:SS"
FRACTIONS = f"{SECONDS}.FF9"
ZONED = f"{FRACTIONS} TZH:TZM"
MAX_LIST = 1_000  # ORA-01795
_MOMENTS = (Form.MOMENT, Form.FINE_MOMENT, Form.ZONED)


def printed(definition: ColumnDefinition, value_type: ValueType) -> str:  # noqa: PLR0911 - a case each
    """What to SELECT so that the text, number or bytes are the whole value, as `rows.columns` reads it."""
    name = quoted(definition.name)
    match value_type.form:
        case Form.DIGITS:
            return f"TO_CHAR({name}, 'TM9')"
        case Form.NUMBER if not definition.precision or not 0 <= (definition.scale or 0) <= definition.precision:
            return f"TO_CHAR({name}, 'TM9')"  # the driver makes decimals only of a scale from 0 to the precision
        case Form.MOMENT | Form.FINE_MOMENT | Form.ZONED:
            return f"TO_CHAR({name}, {literal(_format(definition))})"
        case Form.DAYS | Form.MONTHS:
            return f"TO_CHAR({name})"
        case Form.ROWID:
            return f"ROWIDTOCHAR({name})" if definition.data_type == "ROWID" else f"TO_CHAR({name})"
        case Form.LOB if definition.data_type == XML:
            return f"XMLSERIALIZE(CONTENT {name} AS CLOB NO INDENT)"  # else indented or not, as Oracle likes
    return name


def _format(definition: ColumnDefinition) -> str:
    if definition.data_type == "DATE":
        return SECONDS
    return ZONED if definition.data_type.endswith("WITH TIME ZONE") else FRACTIONS  # a LOCAL one is the session's: UTC


def key_expression(definition: ColumnDefinition, value_type: ValueType) -> str:
    """What to SELECT to get the text that `key_literal` takes."""
    match value_type.form:
        case Form.NUMBER | Form.DIGITS:
            return f"TO_CHAR({quoted(definition.name)}, 'TM9')"
        case Form.BYTES:
            return f"RAWTOHEX({quoted(definition.name)})"
    return printed(definition, value_type)


def key_literal(definition: ColumnDefinition, value_type: ValueType, text: str) -> str:
    """The SQL literal for a key value."""
    form = value_type.form
    if form in {Form.NUMBER, Form.DIGITS}:
        return _number(text)
    if form is Form.BYTES:
        return f"HEXTORAW({literal(text)})"
    if form in _MOMENTS:
        made = _format(definition)
        function = {SECONDS: "TO_DATE", FRACTIONS: "TO_TIMESTAMP", ZONED: "TO_TIMESTAMP_TZ"}[made]
        return f"{function}({literal(text)}, {literal(made)})"
    return f"{'N' if definition.data_type.startswith('N') else ''}{literal(text)}"


def given_literal(definition: ColumnDefinition, value_type: ValueType, text: str) -> str:
    """The SQL literal for a key value as people write it (`replicator.snapshot.keys`); NULL for what is none."""
    if value_type.form in {Form.MOMENT, Form.ZONED}:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return "NULL"
        moment = moment.astimezone(UTC) if moment.tzinfo is not None else moment
        text = f" {moment:%Y-%m-%d %H:%M:%S}"
        made = _format(definition)
        text += "" if made == SECONDS else f".{moment.microsecond:06}000{' +00:00' if made == ZONED else ''}"
    return key_literal(definition, value_type, text)


def _number(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return "NULL"
    return str(number) if number.is_finite() else "NULL"


class OracleKeyRanges(KeyRanges):
    """Comparisons column by column: Oracle has none of rows with < and >."""

    dialect = ORACLE
    everything = "1 = 1"  # TRUE exists since 23ai only

    def __init__(self, description: TableDescription) -> None:
        super().__init__(description.schema)
        self._places = [description.place(name) for name in description.schema.key]

    def column(self, place: int) -> str:
        """As it is."""
        return quoted(self._places[place][0].name)

    def ordered(self, name: str) -> str:
        """As it is."""
        return quoted(name)

    def given(self, place: int, text: str) -> str:
        """See `given_literal`."""
        return given_literal(*self._places[place], text)

    def one_of(self, values: Sequence[str]) -> str | None:
        """A list has at most MAX_LIST members."""
        lists = (values[at : at + MAX_LIST] for at in range(0, len(values), MAX_LIST))
        return " OR ".join(f"{self.column(0)} IN ({', '.join(some)})" for some in lists)


def select_key(description: TableDescription) -> str:
    """The SELECT list of a key."""
    return ", ".join(key_expression(*description.place(name)) for name in description.schema.key)


def read_key(description: TableDescription, row: Sequence[object]) -> tuple[str, ...]:
    """One row of `select_key` as literals."""
    return tuple(
        key_literal(*description.place(name), str(text)) for name, text in zip(description.schema.key, row, strict=True)
    )
