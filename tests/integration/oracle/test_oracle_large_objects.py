"""Large objects, which the log has in parts: read again from the table as of each commit.

https://docs.oracle.com/en/database/oracle/oracle-database/19/refrn/V-LOGMNR_CONTENTS.html (OPERATION:
SELECT_LOB_LOCATOR, LOB_WRITE, LOB_TRIM) and
https://docs.oracle.com/en/database/oracle/oracle-database/19/adfns/flashback.html ("Using Oracle Flashback Query").
The emulator logs the rows of a table in four forms, by turns (`testing.servers.oracle.engine.log.statements.Form`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from replicator.errors import UnsupportedType
from replicator.model.change import ChangeBatch, Ddl, LogMessage, SchemaChange
from replicator.sources.base import KeyRange, ReadOptions
from tests.contract.oracle import OracleKeptPlace, OraclePlace
from tests.contract.place import REPLICATOR

pytestmark = pytest.mark.integration
TABLE = "CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20), c CLOB, b BLOB)"
UNTOLD = ["c", "b"]
XML = ("id", "v", "x")


@pytest.fixture(params=[OraclePlace, OracleKeptPlace])
def place(request: pytest.FixtureRequest) -> Iterator[OraclePlace]:
    opened = request.param.opened(request)
    opened.run(TABLE)
    yield opened
    opened.close()


def insert(number: int, text: str, more: str = "") -> str:
    return f"INSERT INTO @.t SELECT {number}, 'v', {text}, HEXTORAW('0{number}'){more} FROM dual"


def told(messages: list[LogMessage], columns: tuple[str, ...] = ("id", "v", "c", "b")) -> list[tuple[Any, ...]]:
    """(operation, values of the columns, names of what is left out)"""
    found = []
    for message in messages:
        if isinstance(message, ChangeBatch):
            names = message.schema.names
            for row in message.data.to_pylist():
                left_out = [names[place] for place in row["_unchanged"] or ()]
                found.append((row["_operation"], *(row[name] for name in columns), left_out))
    return found


def test_values_are_those_of_each_commit_in_every_form_in_which_they_are_logged(place: OraclePlace) -> None:
    start = place.follow("t")
    numbers = range(1, 5)
    for number in numbers:
        place.run(insert(number, f"'text {number}'"))
    place.run(*(f"UPDATE @.t SET c = RPAD('long ', 3000, '{number}') WHERE id = {number}" for number in numbers))
    place.run("UPDATE @.t SET v = 'w'")
    place.run("UPDATE @.t SET v = 'x', c = EMPTY_CLOB(), b = NULL WHERE id < 3", "UPDATE @.t SET c = NULL WHERE id = 3")
    place.run("DELETE FROM @.t WHERE id = 4")
    found = told(place.read(start))
    assert found[:4] == [("INSERT", n, "v", f"text {n}", bytes([n]), []) for n in numbers]
    updates = found[4:8]
    assert [(one[0], one[1], one[3], one[4]) for one in updates] == [
        ("UPDATE", n, f"long {str(n) * 2995}", bytes([n])) for n in numbers
    ]
    assert all(one[5] == ["v"] or one[2] == "v" for one in updates)  # no more is known of a locator's row than its key
    assert found[8:12] == [("UPDATE", n, "w", None, None, UNTOLD) for n in numbers]
    assert found[12:14] == [("UPDATE", n, "x", "", None, []) for n in (1, 2)]
    assert found[14:] == [("UPDATE", 3, "w", None, b"\x03", []), ("DELETE", 4, None, None, None, [])]


def test_a_transaction_has_the_values_of_its_commit_wherever_its_rows_went(place: OraclePlace) -> None:
    """Of what it wrote over or took back there are none: such a state has no value, or the commit's."""
    place.run(insert(1, "'one'"), insert(2, "'two'"))
    start = place.follow("t")
    place.run(
        "UPDATE @.t SET c = 'first' WHERE id = 1", "UPDATE @.t SET c = 'second' WHERE id = 1",
        "UPDATE @.t SET id = 7 WHERE id = 1", "UPDATE @.t SET id = 1 WHERE id = 2",
        "SAVEPOINT s", "UPDATE @.t SET v = 'never', c = 'never' WHERE id = 7", "ROLLBACK TO SAVEPOINT s",
        insert(9, "'gone'"), "DELETE FROM @.t WHERE id = 9",
    )  # fmt: skip
    final = {}
    for operation, number, _, text, _, left_out in told(place.read(start)):
        assert text != "never"
        if operation == "DELETE":
            final.pop(number, None)
        elif "c" not in left_out:
            final[number] = text
    assert final == {7: "second", 1: "two"}


def test_values_that_flashback_does_not_reach_make_the_table_be_read_again(
    place: OraclePlace,
) -> None:
    """https://docs.oracle.com/en/error-help/db/ora-01466/: the definition is another since."""
    start = place.follow("t")
    place.run(insert(1, "'one'"))
    place.run("ALTER TABLE @.t ADD COLUMN x int")
    place.run(insert(2, "'two'", ", 5"))
    messages = place.read(start)
    reloads = [m for m in messages if isinstance(m, SchemaChange) and m.reload]
    assert [m.operation for m in reloads][:1] == [Ddl.ALTER_TABLE]
    assert [one[1:4] for one in told(messages)] == [(2, "v", "two")]


def test_more_than_a_batch_comes_in_parts(place: OraclePlace) -> None:
    start = place.follow("t")
    place.run(*(insert(number, f"RPAD('{number}', 3000, 'x')") for number in range(1, 7)))
    options, found = ReadOptions(batch_bytes=20_000), []
    reader = place.source.log_reader(REPLICATOR, options)
    try:
        for message in reader.read(start, place.tables, place.schemas):
            found += [message] * isinstance(message, ChangeBatch)
            if sum(m.data.num_rows for m in found) == 6:
                break
    finally:
        reader.close()
    assert len(found) > 1
    assert [text for m in found for text in m.data.column("c").to_pylist()] == [
        f"{n}".ljust(3000, "x") for n in range(1, 7)
    ]
    snapshot = place.source.snapshot_reader(REPLICATOR, options)
    chunk = snapshot.read_chunk(place.table("t"), KeyRange())
    batches = list(chunk.batches)
    snapshot.close()
    assert len(batches) > 1
    assert pa.Table.from_batches(batches).column("c").to_pylist() == [f"{n}".ljust(3000, "x") for n in range(1, 7)]


def test_columns_are_refused_without_the_setting_and_tables_without_a_key(place: OraclePlace) -> None:
    place.run("CREATE TABLE @.nokey (v varchar(20), c CLOB)")
    table = place.table("nokey")
    found = place.source.catalog().describe([table])[table]
    assert isinstance(found, UnsupportedType)
    assert "no key by which its large objects (c)" in found.message
    refusing = place.kind.open({**place.config, "lob_columns": "refuse"})
    refused = refusing.catalog().describe([place.table("t")])[place.table("t")]
    refusing.close()
    assert isinstance(refused, UnsupportedType)
    assert "Read again as of each commit" in str(refused.remedy)


@pytest.fixture(params=["BINARY XML", "CLOB"])
def documents(request: pytest.FixtureRequest, place: OraclePlace) -> OraclePlace:
    """A table with XML documents; how they are stored decides how they are logged."""
    place.run(
        f"CREATE TABLE @.x (id int PRIMARY KEY, v varchar(20), x XMLTYPE) XMLTYPE COLUMN x STORE AS {request.param}"
    )
    return place


def document(number: int, text: str, v: str = "'v'") -> str:
    return f"INSERT INTO @.x SELECT {number}, {v}, {text} FROM dual"


def test_xml_documents_are_those_of_each_commit_however_they_are_stored(documents: OraclePlace) -> None:
    """https://docs.oracle.com/database/121/SUTIL/GUID-4444BC3A-B32D-424F-89B5-E903C903FD11.htm"""
    start = documents.follow("x")
    documents.run(document(1, "XMLTYPE('<a>  <b>ä</b> </a>')", "'it''s a.\"v\"'"))
    documents.run(document(2, "NULL", "NULL"))
    documents.run("UPDATE @.x SET x = XMLTYPE('<c/>') WHERE id = 1")
    documents.run("UPDATE @.x SET v = 'w' WHERE id = 1")
    documents.run("UPDATE @.x SET v = 'y', x = XMLTYPE('<d/>') WHERE id = 2")
    documents.run("UPDATE @.x SET x = NULL WHERE id = 1")
    documents.run("UPDATE @.x SET id = 3 WHERE id = 2")
    documents.run("DELETE FROM @.x WHERE id = 3")
    found = told(documents.read(start), XML)
    assert found[:2] == [("INSERT", 1, 'it\'s a."v"', "<a><b>ä</b></a>", []), ("INSERT", 2, None, None, [])]
    assert found[2] == ("UPDATE", 1, None, "<c/>", ["v"])  # the log says no more than that the document was written
    assert found[3] == ("UPDATE", 1, "w", None, ["x"])
    assert found[4] == ("UPDATE", 2, "y", "<d/>", [])
    assert (found[5][:2], found[5][3]) == (("UPDATE", 1), None)
    assert "x" not in found[5][4]
    assert found[6:] == [("UPDATE", 3, "y", "<d/>", []), ("DELETE", 3, None, None, [])]


def test_xml_documents_that_were_taken_back_are_not_told(documents: OraclePlace) -> None:
    documents.run(document(1, "XMLTYPE('<a/>')"), document(2, "XMLTYPE('<b/>')"))
    start = documents.follow("x")
    documents.run(
        "UPDATE @.x SET x = XMLTYPE('<first/>') WHERE id = 1",
        "SAVEPOINT s", "UPDATE @.x SET x = XMLTYPE('<never/>')", "UPDATE @.x SET x = NULL",
        document(3, "XMLTYPE('<never/>')"), "ROLLBACK TO SAVEPOINT s",
        "UPDATE @.x SET v = 'w' WHERE id = 1",
    )  # fmt: skip
    final = {}
    for operation, number, v, text, left_out in told(documents.read(start), XML):
        assert operation == "UPDATE"
        final[number] = (final.get(number, ("v", None))[0] if "v" in left_out else v, text)
        assert "x" not in left_out
    assert final[1] == ("w", "<first/>")
    assert final.get(2, ("v", "<b/>")) == ("v", "<b/>")  # read again for nothing, at worst
    assert 3 not in final


def test_a_long_xml_document_comes_whole_from_snapshot_and_log(documents: OraclePlace) -> None:
    text = f"<a>{'0123456789' * 10_000}</a>"
    pieces = " || ".join(f"TO_CLOB('{text[at : at + 2_500]}')" for at in range(0, len(text), 2_500))
    start = documents.follow("x")
    documents.run(document(1, f"XMLTYPE({pieces})"))
    assert told(documents.read(start), XML) == [("INSERT", 1, "v", text, [])]
    snapshot = documents.source.snapshot_reader(REPLICATOR, ReadOptions())
    chunk = snapshot.read_chunk(documents.table("x"), KeyRange())
    batches = list(chunk.batches)
    snapshot.close()
    assert pa.Table.from_batches(batches).column("x").to_pylist() == [text]


def test_xml_documents_are_refused_without_the_setting_and_where_they_are_stored_as_objects(place: OraclePlace) -> None:
    place.run("CREATE TABLE @.x (id int PRIMARY KEY, x XMLTYPE)")
    place.run("CREATE TABLE @.o (id int PRIMARY KEY, x XMLTYPE) XMLTYPE COLUMN x STORE AS OBJECT RELATIONAL")
    place.run("CREATE TABLE @.k (id int, x XMLTYPE)")
    tables = [place.table(one) for one in ("x", "o", "k")]
    taken, objects, keyless = (place.source.catalog().describe(tables)[one] for one in tables)
    assert not isinstance(taken, Exception)
    assert [str(one.type) for one in taken.columns] == ["int", "string"]
    assert isinstance(objects, UnsupportedType)
    assert "stored as objects" in objects.message
    assert isinstance(keyless, UnsupportedType)
    assert "no key by which its large objects (x)" in keyless.message
    refusing = place.kind.open({**place.config, "lob_columns": "refuse"})
    refused = refusing.catalog().describe(tables)[tables[0]]
    refusing.close()
    assert isinstance(refused, UnsupportedType)
    assert "has the type XMLTYPE" in refused.message
    assert "Large objects" in str(refused.remedy)


def test_a_document_from_before_another_definition_makes_the_table_be_read_again(documents: OraclePlace) -> None:
    """A column of documents that comes while the log is read is one, too."""
    documents.run(document(1, "XMLTYPE('<a/>')"), "CREATE TABLE @.n (id int PRIMARY KEY)")
    start = documents.follow("x", "n")
    documents.run("UPDATE @.x SET x = XMLTYPE('<b/>')")
    documents.run("ALTER TABLE @.x ADD COLUMN s int", "ALTER TABLE @.n ADD COLUMN x XMLTYPE")
    documents.run("INSERT INTO @.n SELECT 5, XMLTYPE('<n/>') FROM dual")
    messages = documents.read(start)
    again = [m.table for m in messages if isinstance(m, SchemaChange) and m.reload]
    assert again == [documents.table("x")]
    (inserted,) = [m for m in messages if isinstance(m, ChangeBatch)]
    assert inserted.data.column("x").to_pylist() == ["<n/>"]
