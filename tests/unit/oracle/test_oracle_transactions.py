"""Transactions that Tidemark keeps until their end: rows in the order of the log, mixed, with savepoints.

https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/V-LOGMNR_CONTENTS.html: OPERATION_CODE, XID,
ROLLBACK (1: a row that undoes), ROW_ID.
"""

from __future__ import annotations

import numpy as np
import pytest

from replicator.sources.oracle.stream.open_transactions import CommittedTransactions, OpenTransactions
from replicator.sources.oracle.stream.redo_frame import COMMIT, DOCUMENT, LOBS, ROLLBACK, START, RedoFrame

NAMES = [("", ""), ("SHOP", "T")]
Row = tuple[int, int, int, str, bool]  # SCN, transaction, operation, row, undoes


def frame(*rows: Row) -> RedoFrame:
    texts = [(row if operation == DOCUMENT else f"{operation} {row}").encode() for _, _, operation, row, _ in rows]
    bounds, count = np.cumsum([0, *map(len, texts)]), len(rows)
    columns = [np.array(one) for one in zip(*rows, strict=True)]
    return RedoFrame(
        NAMES, ["", "1"], np.frombuffer(b"".join(texts), np.uint8), bounds[:-1], bounds[1:], columns[0],
        np.zeros(count, np.int64), columns[0] * 1_000, columns[1], columns[2],
        np.array([int(operation <= 3 or operation in LOBS) for _, _, operation, _, _ in rows]),
        np.array([row for *_, row, _ in rows], "S18"), columns[4].astype(bool), np.zeros(count, bool),
        np.zeros(count, bool),
    )  # fmt: skip


def told(open_: OpenTransactions, *rows: Row, after: int = 0) -> list[tuple[int, int, str]]:
    """(commit SCN, transaction, statement) of what is handed on."""
    return [
        (int(part.commit_scns[place]), int(part.xids[place]), part.statement(place))
        for part in open_.feed(frame(*rows), after)
        for place in range(len(part.begins))
    ]


@pytest.fixture(params=[1 << 20, 1], ids=["in memory", "in files"])
def transactions(request: pytest.FixtureRequest) -> OpenTransactions:
    return OpenTransactions(request.param)


def test_rows_come_in_commit_order_and_those_that_are_rolled_back_never(transactions: OpenTransactions) -> None:
    assert told(transactions, (1, 7, START, "", False), (2, 7, 1, "a", False), (3, 8, 1, "b", False)) == []
    assert transactions.oldest == 2
    found = told(transactions, (4, 8, COMMIT, "", False), (5, 9, 1, "c", False), (6, 9, ROLLBACK, "", False),
                 (7, 7, 2, "a", False), (8, 7, COMMIT, "", False))  # fmt: skip
    assert found == [(4, 8, "1 b"), (8, 7, "1 a"), (8, 7, "2 a")]
    assert transactions.oldest is None


def test_a_savepoint_takes_back_the_last_change_of_each_of_its_rows(transactions: OpenTransactions) -> None:
    """Rows that undo come in the reverse order, and of an array in any."""
    told(transactions, (1, 7, 1, "a", False), (2, 7, 3, "a", False), (3, 7, 1, "b", False), (4, 7, 1, "c", False))
    found = told(transactions, (5, 7, 2, "b", True), (6, 7, 2, "c", True), (7, 7, 3, "a", True), (8, 7, 1, "b", False),
                 (9, 7, COMMIT, "", False))  # fmt: skip
    assert found == [(9, 7, "1 a"), (9, 7, "1 b")]


def test_what_was_committed_before_the_place_to_resume_at_is_not_told_again(transactions: OpenTransactions) -> None:
    rows = ((1, 7, 1, "a", False), (2, 8, 1, "b", False), (3, 7, COMMIT, "", False), (4, 8, COMMIT, "", False))
    assert told(transactions, *rows, after=3) == [(4, 8, "1 b")]


def test_a_transaction_whose_number_has_no_sequence_is_that_of_its_slot(transactions: OpenTransactions) -> None:
    """Its rows lie in the range that is mined, and its beginning does not:
    https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/V-LOGMNR_CONTENTS.html, START_SCN, is
    NULL then.
    """
    whole, cut = 5 << 32 | 7, -1 << 32 | 7
    told(transactions, (1, whole, 1, "a", False))
    assert told(transactions, (2, cut, 2, "a", True), (3, whole, COMMIT, "", False)) == []


@pytest.mark.parametrize("most", [1 << 20, 1], ids=["in memory", "in files"])
def test_committed_transactions_are_handed_on_whole_without_what_they_took_back(most: int) -> None:
    """https://docs.oracle.com/database/121/SUTIL/GUID-6A2398F7-D484-495A-8AD2-0A6B34C03536.htm: of COMMITTED_DATA_ONLY
    the rows of a transaction stand together, and transactions in the order of their commits.

    The first goes over two frames, and the second undoes a row in another frame."""
    grouped, told_ = CommittedTransactions(most), list[tuple[int, str]]()
    frames = (
        frame((1, 7, 1, "a", False), (2, 7, 1, "b", False)),
        frame((3, 7, 1, "c", False), (5, 8, 1, "d", False), (6, 8, 1, "e", False)),
        frame((7, 8, 2, "d", True), (9, 9, 1, "f", False), (10, 10, 1, "g", False), (11, 10, 2, "g", True)),
    )
    counts = []
    for one in frames:
        for part in grouped.feed(one):
            told_ += [(int(xid), part.statement(place)) for place, xid in enumerate(part.xids)]
        counts.append(len(told_))
    for part in grouped.end():
        told_ += [(int(xid), part.statement(place)) for place, xid in enumerate(part.xids)]
    assert told_ == [(7, "1 a"), (7, "1 b"), (7, "1 c"), (8, "1 e"), (9, "1 f")]
    assert counts == [0, 3, 5]


def test_of_what_is_written_to_large_objects_the_place_stays(transactions: OpenTransactions) -> None:
    """Names and texts may have any characters; a piece of a LOB_WRITE without its SELECT names no row."""
    found = """from "SHOP"."T" where "a;b" = 'for update;' and "C" IS NULL"""
    head = f'DECLARE \\n loc_c CLOB; \\nBEGIN\\n select "X" into loc_c {found} for update;'
    piece = ' buf_c := \'into x from "A"."B" where\'; '
    rows = ((1, 7, 10, piece, False), (2, 7, 3, "a", False), (3, 7, 9, head, False),
            (4, 7, 10, f"{head} buf_c := 'x';", False), (5, 7, 11, " dbms_lob.trim(loc_c, 0);", True))  # fmt: skip
    told(transactions, *rows)
    assert told(transactions, (9, 7, COMMIT, "", False)) == [(9, 7, "3 a"), (9, 7, found)]


def test_a_large_object_of_no_row_that_is_known_is_told_by_its_table_alone(transactions: OpenTransactions) -> None:
    told(transactions, (1, 7, 10, " buf_c := 'x';", False), (2, 7, 10, " buf_c := 'y';", False))
    (part,) = transactions.feed(frame((9, 7, COMMIT, "", False)), 0)
    assert (part.operations.tolist(), part.names[part.tables[0]]) == ([10], ("SHOP", "T"))


BINARY_FORM = 'XML DOC BEGIN:  select "DOC" from "SHOP"."T" where "a.b" = \'it\'\'s and a."x"\' and "C" IS NULL'
TEXT_FORM = (
    'update "SHOP"."T" a set a."DOC" = XMLType(:1)  where a."a.b" = \'it\'\'s and a."x"\' and a."C" IS NULL'
    " and a.ROWID = 'AAA';"
)
PLACE = """from "SHOP"."T" where "a.b" = 'it''s and a."x"' and "C" IS NULL"""


@pytest.mark.parametrize(
    ("begin", "place"), [(BINARY_FORM, PLACE), (TEXT_FORM, f"{PLACE} and ROWID = 'AAA'")], ids=["binary", "CLOB"]
)
def test_an_xml_document_says_where_it_is_though_its_statement_is_none(
    transactions: OpenTransactions, begin: str, place: str
) -> None:
    """CLOB: https://docs.oracle.com/database/121/SUTIL/GUID-4444BC3A-B32D-424F-89B5-E903C903FD11.htm; binary XML: as
    public readers report it.  Their STATUS is 5 and 2, which says of other rows that the table was another.
    """
    rows = frame(
        (1, 7, 1, "a", False), (2, 7, DOCUMENT, begin, False), (3, 7, 71, "", False), (4, 7, DOCUMENT, begin, False),
        (5, 7, DOCUMENT, begin.replace('DOC"', 'COL 3"'), False), (6, 7, DOCUMENT, f"{begin} x", True),
        (9, 7, COMMIT, "", False),
    )  # fmt: skip
    rows = rows._replace(invalid=np.isin(rows.operations, (DOCUMENT, 71)))
    (part,) = transactions.feed(rows, 0)
    told_ = [(part.statement(at), bool(part.invalid[at]), bool(part.touched[at])) for at in range(len(part.begins))]
    assert told_ == [("1 a", False, True), (place, False, True)]


def test_a_document_of_a_definition_that_is_gone_stays_invalid(transactions: OpenTransactions) -> None:
    begin = 'XML DOC BEGIN:  select "COL 3" from "SHOP"."T" where "COL 1" = HEXTORAW(\'c102\')'
    (part,) = transactions.feed(frame((1, 7, DOCUMENT, begin, False), (9, 7, COMMIT, "", False)), 0)
    assert part.invalid.tolist() == [True]


def test_documents_of_no_row_that_is_known_are_told_by_their_table_whatever_other_rows_there_are(
    transactions: OpenTransactions,
) -> None:
    """The place of a LOB_WRITE may be said by another piece; an XML DOC BEGIN has it or nothing has."""
    rows = frame((1, 7, 3, "a", False), (2, 7, DOCUMENT, "select", False), (3, 7, 71, "", False),
                 (4, 7, DOCUMENT, "select", False), (9, 7, COMMIT, "", False))  # fmt: skip
    assert [one for part in transactions.feed(rows, 0) for one in part.operations.tolist()] == [3, DOCUMENT]


def test_an_end_of_a_document_alone_tells_its_table(transactions: OpenTransactions) -> None:
    (part,) = transactions.feed(frame((1, 7, 71, "", False), (9, 7, COMMIT, "", False)), 0)
    assert (part.operations.tolist(), part.names[part.tables[0]]) == ([71], ("SHOP", "T"))
