"""Rows of V$LOGMNR_CONTENTS as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import LogCorrupt
from replicator.sources.oracle.rows.columns import Bytes, Mask, Places
from replicator.sources.oracle.rows.redo_rows import LOCATED

COLUMNS = (
    "m.scn, m.commit_scn, m.commit_timestamp, m.timestamp, m.xid, m.operation_code, m.seg_owner, m.table_name,"
    " m.row_id, m.rollback, m.csf, m.status, m.sql_redo, m.data_obj#"
)
DDL, START, COMMIT, MISSING, ROLLBACK, UNSUPPORTED = 5, 6, 7, 34, 36, 255  # OPERATION_CODE
DOCUMENT = 68  # XML DOC BEGIN
LOBS = (LOCATED, 10, 11, 29, DOCUMENT, 71)  # SELECT_LOB_LOCATOR, LOB_WRITE, LOB_TRIM, LOB_ERASE, XML DOC END
_BETWEEN = "\0"
_LOCATION = re.compile(  # of a locator's row: texts and names may have any character
    rb"""\binto\s+\w+\s+(from\s+"[^"]*"\."[^"]*"\s+where\s+(?:[^'";]|"[^"]*"|'(?:[^']|'')*')*?)\s+for\s+update\b""",
    re.IGNORECASE,
)
# Of XML DOC BEGIN: the column, and where; of documents stored as CLOB the column, its table, its alias, and what.
_BINARY = re.compile(
    rb"""XML DOC BEGIN:\s*select\s+"([^"]*)"\s+(from\s+"[^"]*"\."[^"]*"\s+where\s.*?)[\s;\0]*\Z""",
    re.IGNORECASE | re.DOTALL,
)
_TEXT = re.compile(
    rb"""\s*update\s+("[^"]*"\."[^"]*")\s+(\w+)\s+set\s+\2\."([^"]*)"\s*=\s*XMLType\(:\d+\)\s+(where\s.*?)[\s;\0]*\Z""",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_DEFINITION = re.compile(rb"COL \d+")  # a column's name where the online catalog does not know it as it was
Names = tuple[str, str]


class RedoFrame(NamedTuple):
    """Rows in the order in which LogMiner gave them.

    scns, commit_scns; times: microseconds since 1970 by the server's clock, of the commit where it is known;
    xids: 8 bytes as a number; operations: OPERATION_CODE; tables: places in `names` (owner, table), as the catalog had
    them when LogMiner came by, and in `objects`, the tables' object numbers (DATA_OBJ#); row_ids: of 18 bytes; undone:
    ROLLBACK is 1; invalid: STATUS is not 0; touched: its transaction writes large objects of the table;
    data[begins[i]:ends[i]]: SQL_REDO, of a large object's locator from its FROM on.
    """

    names: list[Names]
    objects: list[str]
    data: Bytes
    begins: Places
    ends: Places
    scns: Places
    commit_scns: Places
    times: Places
    xids: Places
    operations: Places
    tables: Places
    row_ids: npt.NDArray[np.bytes_]
    undone: Mask
    invalid: Mask
    touched: Mask

    def __bool__(self) -> bool:
        return bool(len(self.begins))

    def at(self, rows: Any) -> RedoFrame:
        """Some of the rows: a slice, places or a mask."""
        return RedoFrame(self.names, self.objects, self.data, *(one[rows] for one in self[3:]))

    def compact(self) -> RedoFrame:
        """With no more bytes than those of its statements."""
        pieces = [self.data[begin:end] for begin, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True)]
        bounds = np.cumsum([0, *map(len, pieces)])
        data = np.concatenate(pieces) if pieces else self.data[:0]
        return self._replace(data=data, begins=bounds[:-1], ends=bounds[1:])

    def committed(self, scn: int, time: int) -> RedoFrame:
        """Rows of a transaction whose commit is known now."""
        return self._replace(commit_scns=np.full_like(self.scns, scn), times=np.full_like(self.times, time))

    def names_of(self, rows: Mask) -> set[Names]:
        """Of the tables of these rows."""
        return {self.names[table] for table in np.unique(self.tables[rows]).tolist()}

    def located(self) -> RedoFrame:
        """Of what is written to large objects, the rows that say where, each once; what is written is not needed.

        A locator comes as SELECT_LOB_LOCATOR, or at the head of a LOB_WRITE; an XML document has XML DOC BEGIN, whose
        STATUS says that its SQL_REDO is none to be executed.
        """
        rows = np.flatnonzero(np.isin(self.operations, LOBS))
        if not len(rows):
            return self
        begins, ends, operations = self.begins.copy(), self.ends.copy(), self.operations.copy()
        keep, invalid = np.ones(len(begins), np.bool_), self.invalid.copy()
        made = bytearray()  # locations that do not stand so in the data
        said: set[tuple[int, bytes]] = set()
        for row in rows.tolist():
            begin = int(begins[row])
            text = self.data[begin : ends[row]].tobytes()
            if operations[row] == DOCUMENT:
                where, known = _document(text)
                invalid[row] = not known
            else:
                found = _LOCATION.search(text)
                where = found[1] if found else b""
            place = (int(self.xids[row]), where)
            told = bool(where) or operations[row] == DOCUMENT  # without a known place, its table is read again
            keep[row] = told and place not in said and not self.undone[row]
            if keep[row]:
                said.add(place)
            if keep[row] and where:
                at = text.find(where)
                if at < 0:
                    begin, at = len(self.data), len(made)
                    made += where
                begins[row], ends[row], operations[row] = begin + at, begin + at + len(where), LOCATED
        data = np.concatenate([self.data, np.frombuffer(bytes(made), np.uint8)]) if made else self.data
        frame = self._replace(data=data, begins=begins, ends=ends, operations=operations, invalid=invalid)
        return frame.at(keep)

    def statement(self, row: int) -> str:
        """SQL_REDO of one row."""
        return self.data[self.begins[row] : self.ends[row]].tobytes().decode("utf-8", "replace")


def _document(text: bytes) -> tuple[bytes, bool]:
    """Where an XML document's row is, from FROM on, or nothing; and whether the row has names of columns."""
    if found := _BINARY.match(text):
        column, where = found[1], found[2]
    elif found := _TEXT.match(text):
        aliased = rb"""('(?:[^']|'')*'|"[^"]*")|\b""" + found[2] + rb"""\.(?="|ROWID)"""
        column, where = found[3], re.sub(aliased, rb"\1", found[4], flags=re.IGNORECASE)
        where = b"from " + found[1] + b" " + where
    else:
        return b"", False
    return where, not _OTHER_DEFINITION.fullmatch(column)


def frames(batches: Iterable[Any]) -> Iterator[RedoFrame]:
    """Of the driver's data frames with `COLUMNS`; a statement that goes on in the next row (CSF) is one.

    LogCorrupt where it does not go on.
    """
    held: pa.Table | None = None
    for one in batches:
        table = pa.table(one)
        if held is not None:
            table, held = pa.concat_tables([held, table], promote_options="permissive"), None
        cut = np.asarray(table.column(10).cast(pa.int64()).fill_null(0)).astype(np.bool_)
        if len(cut) and cut[-1]:  # of the last statement the end is not there yet
            ends = np.flatnonzero(~cut)
            whole = int(ends[-1]) + 1 if len(ends) else 0
            held, table, cut = table.slice(whole), table.slice(0, whole), cut[:whole]
        if len(table):
            yield _joined(table, cut) if cut.any() else _frame(table)
    if held is not None:
        message = "LogMiner's rows end in the middle of a statement."
        raise LogCorrupt(message)


def _joined(table: pa.Table, cut: Mask) -> RedoFrame:
    firsts = np.flatnonzero(np.insert(~cut[:-1], 0, values=True))
    texts = [text or "" for text in table.column(12).to_pylist()]
    bounds = [*firsts.tolist(), len(texts)]
    whole = ["".join(texts[begin:end]) for begin, end in pairwise(bounds)]
    rows = table.take(pa.array(firsts))
    return _frame(
        rows.set_column(12, table.schema.field(12).with_type(pa.large_string()), pa.array(whole, pa.large_string()))
    )


def _frame(table: pa.Table) -> RedoFrame:
    columns = [one.combine_chunks() for one in table.columns]
    columns = [one.chunk(0) if isinstance(one, pa.ChunkedArray) else one for one in columns]
    scns, commits = (_numbers(columns[place]) for place in (0, 1))
    times = pc.coalesce(*(columns[place].cast(pa.timestamp("us")) for place in (2, 3)))
    owners, names = (columns[place].cast(pa.string()).fill_null("") for place in (6, 7))
    objects = columns[13].cast(pa.int64()).cast(pa.string()).fill_null("")
    listed = pc.binary_join_element_wise(owners, names, objects, _BETWEEN).dictionary_encode()
    places = [one.split(_BETWEEN) for one in listed.dictionary.to_pylist()]
    sql = columns[12].cast(pa.large_string()).fill_null("")
    bounds = np.frombuffer(sql.buffers()[1], np.int64)[sql.offset : sql.offset + len(sql) + 1]
    data = sql.buffers()[2]
    return RedoFrame(
        [(owner, name) for owner, name, _ in places],
        [number for *_, number in places],
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8),
        bounds[:-1].copy(),
        bounds[1:].copy(),
        scns,
        commits,
        _numbers(times.cast(pa.int64())),
        np.array([int.from_bytes(one or b"", "little", signed=True) for one in _xids(columns[4])], np.int64),
        _numbers(columns[5]),
        np.asarray(listed.indices).astype(np.int64),
        np.array([one or "" for one in columns[8].to_pylist()], "S18"),
        _numbers(columns[9]) != 0,
        _numbers(columns[11]) != 0,
        np.zeros(len(scns), np.bool_),
    )


def _xids(column: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = column.to_pylist()
    return found


def _numbers(column: pa.Array) -> Places:
    found: Places = np.asarray(column.cast(pa.int64()).fill_null(0)).astype(np.int64)
    return found
