"""Change Tracking beyond the contract: net changes, definitions, cleanup, what is refused; and the emulator's side.

Behaviours are those of "CHANGETABLE (Transact-SQL)", "Work with Change Tracking (SQL Server)" and
"sys.change_tracking_tables (Transact-SQL)" at learn.microsoft.com/sql.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.errors import LogPurged, SourceMisconfigured, SourceReplaced, TableDisappeared, UnsupportedEngine
from replicator.model.change import Commit, Ddl, LogMessage, SchemaChange, Watermark
from replicator.sources.base import CheckStatus
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.config import Capture
from replicator.sources.sqlserver.offset import VersionOffset
from replicator.sources.sqlserver.tracking import change_tracking
from tests.contract.place import changes
from tests.contract.sqlserver import SqlServerPlace, TrackedPlace, captured_database, tracked_database
from tests.integration.sqlserver.emulated import Database, told

pytestmark = pytest.mark.integration
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v nvarchar(20))"


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[TrackedPlace]:
    opened = TrackedPlace.opened(request)
    yield opened
    opened.close()


def end(messages: list[LogMessage]) -> VersionOffset:
    offset = next(one for one in reversed(messages) if isinstance(one, Commit)).offset
    assert isinstance(offset, VersionOffset)
    return offset


def test_each_key_is_told_once_as_it_is_now_and_a_key_that_moved_as_two(place: TrackedPlace) -> None:
    place.run(KEYED)
    place.run("INSERT INTO @.t VALUES (1, N'a'), (2, N'b'), (3, N'c'), (4, N'd')")
    start = place.follow("t")
    place.run("UPDATE @.t SET v = N'x' WHERE id = 1")
    place.run(
        "UPDATE @.t SET v = N'y' WHERE id = 1", "DELETE FROM @.t WHERE id = 2", "UPDATE @.t SET id = 9 WHERE id = 3"
    )
    place.undo("DELETE FROM @.t")
    place.run("DELETE FROM @.t WHERE id = 4", "INSERT INTO @.t VALUES (4, N'again'), (5, N'new'), (6, N'gone')")
    place.run("DELETE FROM @.t WHERE id = 6")
    messages = place.read(start)
    assert sorted(changes(messages, "id", "v", "_before_id", "_before_v")) == [
        ("DELETE", 2, None, 2, None),
        ("DELETE", 3, None, 3, None),
        ("DELETE", 6, None, 6, None),
        ("INSERT", 5, "new", None, None),
        ("INSERT", 9, "c", None, None),
        ("UPDATE", 1, "y", 1, None),
        ("UPDATE", 4, "again", 4, None),
    ]
    assert place.schemas[place.table("t")].partial  # so that row filters on other columns are refused
    assert changes(place.read(end(messages)), "id") == []


def test_a_table_that_goes_before_it_is_tracked_has_not_failed(place: TrackedPlace) -> None:
    place.run(KEYED)
    (found,) = SqlServerCatalog(place.session, capture=Capture.TRACKING).details([place.table("t")]).values()
    assert isinstance(found, TableDescription)
    place.run("DROP TABLE @.t")
    with pytest.raises(TableDisappeared):
        change_tracking.enabled(place.session, found)


def test_definitions_are_told_before_the_rows_that_have_them(place: TrackedPlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    place.run("ALTER TABLE @.t ADD w int", "INSERT INTO @.t VALUES (1, N'a', 7)")
    messages = place.read(start)
    assert told(messages) == [(Ddl.ALTER_TABLE, False), ("INSERT", 1, 7)]
    place.schemas = place.described("t")
    place.run("TRUNCATE TABLE @.t", "INSERT INTO @.t VALUES (2, N'b', 8)")
    messages = place.read(end(messages))
    assert told(messages) == [(Ddl.ALTER_TABLE, True), ("INSERT", 2, 8)]  # it is read again
    place.schemas = place.described("t")
    place.session.run(f"EXEC sp_rename '{place.name}.t.v', 'word', 'COLUMN'", place.name)
    place.session.run(f"ALTER TABLE {place.name}.t DISABLE CHANGE_TRACKING", place.name)
    place.run("DELETE FROM @.t")  # not tracked
    messages = place.read(end(messages))
    (change,) = [one for one in messages if isinstance(one, SchemaChange)]
    assert (change.reload, dict(change.renamed_columns)) == (True, {"v": "word"})
    place.schemas = place.described("t")
    place.run("DROP TABLE @.t", "CREATE TABLE @.t (id int PRIMARY KEY)", "INSERT INTO @.t VALUES (3)")
    seen = list[LogMessage]()
    for message in place.messages(end(messages)):
        seen.append(message)
        if isinstance(message, SchemaChange) and message.operation is Ddl.CREATE_TABLE:
            break
    assert told(seen) == [(Ddl.DROP_TABLE, False), (Ddl.CREATE_TABLE, True)]


def test_changes_that_cleanup_has_removed_are_missed_and_said(place: TrackedPlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, N'a')")
    after = end(place.read(start))
    place.session.run("EXEC sp_emulator @name = 'tracking_age', @value = '4000'", "emulator")
    place.run("INSERT INTO @.t VALUES (2, N'b')")
    place.session.run("EXEC sys.sp_flush_CT_internal_table_on_demand", "emulator")
    with pytest.raises(LogPurged, match="Cleanup has removed"):
        place.read(start)
    assert changes(place.read(after), "id") == [("INSERT", 2)]  # what was read may be purged
    with pytest.raises(SourceReplaced, match="ends at version"):
        place.read(VersionOffset(after.version + 1_000_000))


def test_marks_that_were_read_are_taken_away_again(place: TrackedPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicator.sources.sqlserver.tracking.reader.FORGET_SECONDS", 0.0)
    place.run(KEYED)
    start = place.follow("t")
    token, seen = place.mark(), False
    reader = place.source.log_reader("contract", place.source.options)
    for message in reader.read(start, place.tables, place.schemas):
        seen = seen or (isinstance(message, Watermark) and message.token == token)
        if isinstance(message, Commit):
            reader.confirm(message.offset)
        if seen and not place.session.rows("SELECT 1 FROM tidemark.tracked_watermark WHERE token <> ''", place.name):
            break
    reader.close()


def test_what_cannot_be_tracked_is_refused_with_what_helps(place: TrackedPlace, request: pytest.FixtureRequest) -> None:
    place.run("CREATE TABLE @.nokey (v int)", "CREATE TABLE @.named (name nvarchar(20) PRIMARY KEY)")
    tables = [place.table("nokey"), place.table("named")]
    catalog = place.source.catalog()
    found = catalog.describe(tables)[tables[0]]
    assert isinstance(found, UnsupportedEngine)
    assert "no primary key" in found.message
    assert [len(info.notes) for info in catalog.infos(tables).values()] == [1, 1]
    server = request.getfixturevalue("sqlserver")
    settings = captured_database(server, "untracked") | {"capture": "change_tracking"}
    session = SqlServerPlace.live(settings).session
    source = place.kind.open(settings)
    with pytest.raises(SourceMisconfigured) as caught:
        source.log("contract").state()
    assert "ALTER DATABASE [untracked] SET CHANGE_TRACKING = ON" in caught.value.remedy
    failed = {one.name: one.remedy for one in source.check() if one.status is CheckStatus.FAILED}
    assert "SET CHANGE_TRACKING = ON" in failed["tracking"]
    session.run("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION OFF", "untracked")
    session.run("ALTER DATABASE CURRENT SET CHANGE_TRACKING = ON", "untracked")
    with pytest.raises(SourceMisconfigured) as caught:
        source.log("contract").state()
    assert "ALLOW_SNAPSHOT_ISOLATION ON" in caught.value.remedy
    source.close()
    session.close()


def test_the_emulator_gives_versions_at_commits_and_shows_them_with_their_rows(
    place: TrackedPlace, request: pytest.FixtureRequest
) -> None:
    """ "Work with Change Tracking", "Using Snapshot Isolation"; "CHANGETABLE", Remarks; errors 4996, 4997, 3726."""
    settings = tracked_database(request.getfixturevalue("sqlserver"), "tracked")
    one, two = (Database(request.getfixturevalue("sqlserver"), settings["database"]) for _ in "ab")
    name = f"{place.name}.e"
    one.run(
        f"CREATE TABLE {name} (id int CONSTRAINT pk_{place.name} PRIMARY KEY, v int)", f"CREATE TABLE {name}2 (v int)"
    )
    one.run(f"ALTER TABLE {name} ENABLE CHANGE_TRACKING WITH (TRACK_COLUMNS_UPDATED = OFF)")
    assert "already enabled" in one.refused(f"ALTER TABLE {name} ENABLE CHANGE_TRACKING")
    assert "requires a primary key" in one.refused(f"ALTER TABLE {name}2 ENABLE CHANGE_TRACKING")
    assert "cannot be dropped" in one.refused(f"ALTER TABLE {name} DROP CONSTRAINT pk_{place.name}")
    ((before,),) = one.run("SELECT CHANGE_TRACKING_CURRENT_VERSION()")
    one.run("BEGIN TRANSACTION", f"INSERT INTO {name} VALUES (1, 1)")
    two.run(f"INSERT INTO {name} VALUES (2, 2)")  # commits first
    one.run("COMMIT")
    listed = "SYS_CHANGE_VERSION, SYS_CHANGE_OPERATION, id"
    changed = f"SELECT {listed} FROM CHANGETABLE(CHANGES {name}, {before}) AS c ORDER BY 1"
    assert one.run(changed) == [(before + 1, "I", 2), (before + 2, "I", 1)]
    two.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT", "BEGIN TRANSACTION")
    assert two.run("SELECT CHANGE_TRACKING_CURRENT_VERSION()") == [(before + 2,)]
    one.run(f"UPDATE {name} SET v = 9")
    assert two.run("SELECT CHANGE_TRACKING_CURRENT_VERSION()") == [(before + 2,)]
    assert two.run(changed) == [(before + 1, "I", 2), (before + 2, "I", 1)]
    two.run("COMMIT")
    assert {row[0] for row in one.run(changed)} == {before + 3}
    one.close()
    two.close()
