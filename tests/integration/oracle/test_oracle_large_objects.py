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


@pytest.fixture(params=[OraclePlace, OracleKeptPlace])
def place(request: pytest.FixtureRequest) -> Iterator[OraclePlace]:
    opened = request.param.opened(request)
    opened.run(TABLE)
    yield opened
    opened.close()


def insert(number: int, text: str, more: str = "") -> str:
    return f"INSERT INTO @.t SELECT {number}, 'v', {text}, HEXTORAW('0{number}'){more} FROM dual"


def told(messages: list[LogMessage]) -> list[tuple[Any, ...]]:
    """(operation, id, v, c, b, names of what is left out)"""
    found = []
    for message in messages:
        if isinstance(message, ChangeBatch):
            names = message.schema.names
            for row in message.data.to_pylist():
                left_out = [names[place] for place in row["_unchanged"] or ()]
                found.append((row["_operation"], *(row[name] for name in ("id", "v", "c", "b")), left_out))
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
