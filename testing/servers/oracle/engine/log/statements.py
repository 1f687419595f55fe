"""SQL_REDO and SQL_UNDO of a change (Utilities, "Using LogMiner": "Understanding the Data Dictionary and Tables").

Writes to large objects are separate rows.  Oracle documents their operations ("V$LOGMNR_CONTENTS"), but neither their
order nor their place relative to the table row's statement; readers report several forms.  Each table row uses one of
them (`Form`).

Rows for XML documents follow the table row's statement, which does not name their columns (Utilities, "Querying
V$LOGMNR_CONTENTS Based on XMLType Columns and Tables").  For documents stored as CLOB the form is the documented one;
for binary XML, and for a document that becomes NULL, it is the one that readers report.

Literals are written as LogMiner writes them: every value as a string, datetimes in the mining session's formats.  If
the table's definition has changed since, columns are named "COL 1" and so on, and values are HEXTORAW of Oracle's own
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum

from testing.servers.oracle.engine import nls
from testing.servers.oracle.engine.catalog import Column, Table
from testing.servers.oracle.engine.kinds import LOBS, LOCAL, LONGS, MONTHS, NATIONAL, SECONDS, ZONED, Kind
from testing.servers.oracle.engine.log.redo import DELETE, INSERT, UPDATE, Cells, Record
from testing.servers.oracle.wire import values

NO_DELIMITER, NO_ROWID, STRING_LITERALS = 64, 2048, 4096
SELECT_LOCATOR, LOB_WRITE, LOB_TRIM = 9, 10, 11
XML = "XMLTYPE"
DOC_BEGIN, DOC_WRITE, DOC_END = 68, 70, 71
INVALID, NEEDS_ASSEMBLY = (2, "XML sql_redo not re-executable"), (5, "XML sql_redo needs assembly")  # STATUS, INFO
LOCALS = ("loc_c CLOB", "buf_c VARCHAR2(6174)", "loc_b BLOB", "buf_b RAW(6174)", "loc_nc NCLOB",
          "buf_nc NVARCHAR2(6174)")  # fmt: skip
PIECE = 1000  # characters or bytes of a LOB that one statement writes


class Form(IntEnum):
    """How large objects of a row are logged: behind it, with a locator; before it, with none, the row having NULL; in
    its statement where they are short; each piece with the locator at its head.
    """

    LOCATED, BEFORE, INLINE, HEADED = range(4)


@dataclass(frozen=True)
class Style:
    """formats: NLS parameters; options: DBMS_LOGMNR's."""

    formats: Mapping[str, str]
    zone: str
    options: int

    @property
    def end(self) -> str:
        return "" if self.options & NO_DELIMITER else ";"


FUNCTIONS = {
    "DATE": "TO_DATE", "TIMESTAMP": "TO_TIMESTAMP", LOCAL: "TO_TIMESTAMP", ZONED: "TO_TIMESTAMP_TZ",
    SECONDS: "TO_DSINTERVAL", MONTHS: "TO_YMINTERVAL",
}  # fmt: skip


def literal(kind: Kind, text: str | None, style: Style) -> str:
    """A value of a statement."""
    if text is None:
        return "NULL"
    if kind.name in ("RAW", "LONG RAW"):
        return f"HEXTORAW('{text[2:]}')"
    plain = quoted(_plain(kind, text, style))
    if style.options & STRING_LITERALS:
        return plain
    if kind.name in NATIONAL and not text.isascii():
        return _unistr(text)
    if kind.name == "DATE":
        plain += f", {quoted(style.formats['NLS_DATE_FORMAT'])}"
    return f"{FUNCTIONS[kind.name]}({plain})" if kind.name in FUNCTIONS else plain


def _unistr(text: str) -> str:
    """Of a national text: what is not ASCII as a backslash and four digits of UTF-16."""
    made = ""
    for one in text:
        units = one.encode("utf-16-be", "surrogatepass").hex().upper()
        escaped = "".join(f"\\{units[at : at + 4]}" for at in range(0, len(units), 4))
        made += {"'": "''", "\\": "\\\\"}.get(one, one if one.isascii() and one.isprintable() else escaped)
    return f"UNISTR('{made}')"


def _plain(kind: Kind, text: str, style: Style) -> str:
    """Without quotes."""
    match kind.name:
        case "NUMBER" | "FLOAT":
            made = nls.number_text(text)
        case "BINARY_FLOAT" | "BINARY_DOUBLE":
            made = _scientific(text)
        case "DATE":
            made = nls.render(text, style.formats["NLS_DATE_FORMAT"])
        case "TIMESTAMP":
            made = nls.render(text, style.formats["NLS_TIMESTAMP_FORMAT"], scale=kind.scale or 0)
        case name if name in (LOCAL, ZONED):
            stamp, _, zone = text.partition("|")
            zone = zone or style.zone
            model = style.formats["NLS_TIMESTAMP_TZ_FORMAT" if name == ZONED else "NLS_TIMESTAMP_FORMAT"]
            made = nls.render(nls.shifted(stamp, nls.offset(zone)), model, zone, kind.scale or 0)
        case name if name == SECONDS:
            made = nls.seconds_text(text, kind.precision or 2, kind.scale or 0)
        case name if name == MONTHS:
            made = nls.months_text(text, kind.precision or 2)
        case _:
            made = text
    return made


def _scientific(text: str) -> str:
    """TO_CHAR of a binary float."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return {"NaN": "Nan", "Infinity": "Inf", "-Infinity": "-Inf"}[text]
    value = Decimal(text)
    if not value:
        return "0"
    sign, digits, _ = value.normalize().as_tuple()
    mantissa = f"{digits[0]}." + ("".join(map(str, digits[1:])) or "0")
    return f"{'-' if sign else ''}{mantissa}E{value.adjusted():+04}"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Statements:
    """Of one record.  table: as the dictionary has it; None: it has not, or another version."""

    def __init__(
        self, record: Record, table: Table | None, named: tuple[str, str], style: Style, row_id: str,
        documents: Collection[str] = (),
    ) -> None:  # fmt: skip
        """named: owner and name that the statement has; documents: ids of XMLTYPE columns that are written, where the
        dictionary does not have them.
        """
        self._documents = documents
        self._record, self._table, self._style, self._row_id = record, table, style, row_id
        self._target = f'"{named[0]}"."{named[1]}"'
        self._ids = [*dict.fromkeys((*record.before, *record.after))]
        self._form = Form(record.row % len(Form))
        if self._form is Form.BEFORE and not self._says_more():
            self._form = Form.LOCATED

    def redo(self) -> str | None:
        record = self._record
        return self._statement(record.operation, record.before, record.after)

    def undo(self) -> str | None:
        record = self._record
        inverse = {INSERT: DELETE, DELETE: INSERT, UPDATE: UPDATE}[record.operation]
        return None if record.undo else self._statement(inverse, record.after, record.before)

    def _columns(self) -> list[tuple[str, str, Kind | None]]:
        """id, name, type of each."""
        if self._table is None:
            return [(one, f"COL {one}", None) for one in sorted(self._ids, key=int)]
        return [(str(one.id), one.name, one.kind) for one in self._table.columns]

    def _says_more(self) -> bool:
        """Is there anything but large objects in an UPDATE?"""
        lobs = {at for at, _, kind in self._columns() if kind and kind.name in (*LOBS, XML)}
        return self._record.operation != UPDATE or bool(self._record.after.keys() - lobs)

    def _inline(self, text: str) -> bool:
        return self._form is Form.INLINE and len(text) <= PIECE

    def _value(self, kind: Kind | None, text: str | None) -> str:
        if kind is not None and kind.name in LOBS:
            if text is None or self._form is Form.BEFORE:
                return "NULL"
            if self._inline(text) and len(text) > 2:  # noqa: PLR2004 - an empty BLOB is \\x
                return f"HEXTORAW('{text[2:]}')" if kind.name == "BLOB" else quoted(text)
            return "EMPTY_BLOB()" if kind.name == "BLOB" else "EMPTY_CLOB()"
        if kind is None:
            return "NULL" if text is None else f"HEXTORAW('{text}')"
        return literal(kind, text, self._style)

    def _statement(self, operation: int, before: Cells, after: Cells) -> str | None:
        columns = self._columns()
        if operation == INSERT:
            named = [
                (name, self._value(kind, after[at]))
                for at, name, kind in columns
                if at in after and not (kind and kind.name == XML)
            ]
            names, cells = ",".join(f'"{name}"' for name, _ in named), ",".join(cell for _, cell in named)
            return f"insert into {self._target}({names}) values ({cells}){self._style.end}"
        where = self._where(before)
        if operation == DELETE:
            return f"delete from {self._target}{where}{self._style.end}"
        sets = [
            f'"{name}" = {self._value(kind, after[at])}'
            for at, name, kind in columns
            if at in after and not (kind and kind.name in (*LOBS, XML) and not self._set(at, kind))
        ]
        return f"update {self._target} set {', '.join(sets)}{where}{self._style.end}" if sets else None

    def _where(self, cells: Cells, alias: str = "") -> str:
        conditions = []
        for at, name, kind in self._columns():
            if at in cells and not self._record.undo and not (kind and kind.name in (*LOBS, *LONGS, XML)):
                value = self._value(kind, cells[at])
                conditions.append(f'{alias}"{name}" IS NULL' if value == "NULL" else f'{alias}"{name}" = {value}')
        if not self._style.options & NO_ROWID:
            conditions.append(f"{alias}ROWID = '{self._row_id}'")
        return f" where {' and '.join(conditions)}" if conditions else ""

    def _set(self, at: str, kind: Kind) -> bool:
        """Does the UPDATE name a large object?  That which takes it back does, too."""
        text = (self._record.before if self._record.undo else self._record.after)[at]
        if kind.name == XML:
            return text is None and kind.storage == "CLOB"
        return not text or self._inline(text)

    @property
    def lobs_first(self) -> bool:
        return self._form is Form.BEFORE

    def lobs(self) -> Iterator[tuple[int, str]]:
        """Operation and statement of each piece that is written beside the row."""
        if self._table is None or self._record.undo:
            return
        for column in self._table.columns:
            text = self._record.after.get(str(column.id))
            if column.kind.name in LOBS and text is not None and not self._inline(text):
                yield from self._lob(column, text)

    def documents(self) -> Iterator[tuple[int, str, int, str]]:
        """Operation, statement, STATUS and INFO of rows that have XML documents."""
        if self._record.undo:
            return
        if self._table is None:
            where = self._where({**self._record.before, **self._record.after})
            for at in sorted(self._documents):
                yield DOC_BEGIN, f'XML DOC BEGIN:  select "COL {at}" from {self._target}{where}', *INVALID
                yield DOC_END, "", *INVALID
            return
        for column in self._table.columns:
            at, text = str(column.id), self._record.after.get(str(column.id))
            if column.kind.name != XML or at not in self._record.after:
                continue
            if text is None and (self._record.operation == INSERT or column.kind.storage == "CLOB"):
                continue
            yield from self._document(column, text)

    def _document(self, column: Column, text: str | None) -> Iterator[tuple[int, str, int, str]]:
        cells = {**self._record.before, **self._record.after}
        pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)] if text else []
        if column.kind.storage == "CLOB":
            where = self._where(cells, "a.")
            begin = f'update {self._target} a set a."{column.name}" = XMLType(:1) {where}{self._style.end}'
            yield DOC_BEGIN, begin, *NEEDS_ASSEMBLY
            yield from ((DOC_WRITE, piece, *NEEDS_ASSEMBLY) for piece in pieces)
            yield DOC_END, "", *NEEDS_ASSEMBLY
            return
        yield DOC_BEGIN, f'XML DOC BEGIN:  select "{column.name}" from {self._target}{self._where(cells)}', *INVALID
        if text is None:
            yield DOC_WRITE, "XML_REDO := NULL", *INVALID
        for piece in pieces:
            data = piece.encode()
            yield DOC_WRITE, f"XML_REDO := HEXTORAW('{data.hex()}'):{len(data)}", *INVALID
        yield DOC_END, "", *INVALID

    def _lob(self, column: Column, text: str) -> Iterator[tuple[int, str]]:
        letter = {"CLOB": "c", "NCLOB": "nc", "BLOB": "b"}[column.kind.name]
        names = "".join(f" {one}; \n" for one in LOCALS)
        where = self._where({**self._record.before, **self._record.after})
        found = f'select "{column.name}" into loc_{letter} from {self._target}{where}'
        head = f"DECLARE \n{names}BEGIN\n {found} for update;"
        if self._form in (Form.LOCATED, Form.INLINE):
            yield SELECT_LOCATOR, head
        head = head if self._form is Form.HEADED else ""
        data: Sequence[str] = [text[2:][at : at + 2 * PIECE] for at in range(0, len(text) - 2, 2 * PIECE)]
        if letter != "b":
            data = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
        at = 1
        if self._record.operation == UPDATE:
            yield LOB_TRIM, f"{head} dbms_lob.trim(loc_{letter}, 0);\nEND;"
        for piece in data:
            size = len(piece) // 2 if letter == "b" else len(piece)
            value = f"HEXTORAW('{piece}')" if letter == "b" else quoted(piece)
            yield (
                LOB_WRITE,
                f"{head} buf_{letter} := {value}; \n dbms_lob.write(loc_{letter}, {size}, {at}, buf_{letter});\nEND;",
            )
            at += size


def hexed(table_columns: Mapping[str, Kind], cells: Cells) -> Cells:
    """Values as Oracle's own bytes, by the types that the columns had."""
    encode: Callable[[Kind, bytes], bytes] = values.encode
    return {
        at: None if text is None or at not in table_columns or table_columns[at].name in (*LOBS, XML)
        else encode(table_columns[at], text.encode()).hex()
        for at, text in cells.items()
    }  # fmt: skip
