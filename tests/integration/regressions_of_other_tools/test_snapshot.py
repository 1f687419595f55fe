"""What snapshots of other replicators lost or doubled; each test is named after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
import pytest

from replicator.model.identifiers import TableId
from replicator.sources.base import KeyRange, ReadOptions, SnapshotReader
from replicator.sources.mysql.source import open_source
from tests.integration.pipeline.lab import Lab, insert
from webapp.replicators import services
from webapp.replicators.models import ChunkRow
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
ROWS = 45


def chunk_rows(lab: Lab, table: str) -> list[int]:
    """Rows of each chunk of a table's newest snapshot, in the order of their bounds."""
    run = lab.table(table).runs.first()
    assert run is not None
    return list(ChunkRow.objects.filter(run=run).order_by("number").values_list("rows", flat=True))


def assert_chunked(lab: Lab, table: str, rows: int, size: int) -> None:
    """Chunks of `size` rows hold each of `rows` rows once."""
    whole, rest = divmod(rows, size)
    assert chunk_rows(lab, table) == [size] * whole + [rest] * bool(rest)


def read_in_chunks(reader: SnapshotReader, table: TableId, size: int) -> Iterator[pa.Table]:
    """As the engine does it: the end first, then a bound and its chunk, again and again."""
    end, lower = reader.end_key(table), None
    assert end is not None
    while lower != end:
        upper = reader.next_bound(table, lower, end, size)
        assert upper != lower, "planning does not move on"
        chunk = reader.read_chunk(table, KeyRange(lower, upper))
        yield pa.Table.from_batches(chunk.batches, schema=chunk.schema.row_arrow)
        lower = upper


def test_a_composite_key_whose_first_column_repeats_at_a_chunk_border(lab: Lab, small_chunks: int) -> None:
    """airbyte #29574, #85351: chunks bounded by the key's first column skip the rows that share its value.

    Tidemark bounds chunks by the whole key, compared lexicographically by the server.
    """
    keys = {
        "repeats": ("a INT, b DATE, c BIGINT UNSIGNED", lambda n: (n // 20, f"2026-03-{1 + n // 5 % 4:02}", n % 5)),
        "constant": ("a VARCHAR(9), b ENUM('z','a'), c SMALLINT", lambda n: ("same", "za"[n % 2], -n)),
    }
    for table, (columns, key) in keys.items():
        lab.execute(f"CREATE TABLE {table} ({columns}, v INT, PRIMARY KEY (a, b, c))")
        with lab.transaction() as cursor:
            insert(cursor, table, [(*key(n), n) for n in range(ROWS)])
    lab.replicate()
    assert lab.run_and_compare(len(keys)) == ROWS * len(keys)
    for table in keys:
        assert_chunked(lab, table, ROWS, small_chunks)


COLLATIONS = {
    "swedish": ("utf8mb4", "utf8mb4_swedish_ci"),
    "german2": ("utf8mb4", "utf8mb4_german2_ci"),
    "latin1_german2": ("latin1", "latin1_german2_ci"),
    "general": ("utf8mb4", "utf8mb4_general_ci"),
    "unicode": ("utf8mb4", "utf8mb4_unicode_520_ci"),
    "nopad": ("utf8mb4", "utf8mb4_unicode_nopad_ci"),
    "bin": ("utf8mb4", "utf8mb4_bin"),
    "nopad_bin": ("utf8mb4", "utf8mb4_nopad_bin"),
    "utf16": ("utf16", "utf16_bin"),
}
WORDS = [
    "", " ", "a", "A", "aa", "aB", "Ab", "a ", "a\t", "a\x01", "b", "B ", "z", "Z", "zz", "_", "0", "9", "10", "[", "~",
    "'", "\\",
    "ä", "Ä", "ae", "AE", "ad", "af", "å", "aa ", "ö", "oe", "of", "ü", "ue", "y", "ß", "ss", "ST", "st", "é", "E", "f",
    "ñ", "n",
    "I", "i", "ı", "İ", "Ω", "ω", "я", "Я", "中", "文", "ｚ", "\ue000", "\uffee", "😀", "😁", "𝒜", "a😀", "a\uffee",
    "a中",
]  # fmt: skip


def words_under(lab: Lab, charset: str, collation: str, table: str) -> list[str]:
    """A table of words that differ under the collation (of those that do not, the first); returns what the server
    keeps.
    """
    lab.execute(f"CREATE TABLE {table} (k VARCHAR(20) PRIMARY KEY, n INT) CHARACTER SET {charset} COLLATE {collation}")
    written = [word for word in WORDS if charset != "latin1" or word.isascii() or word in "äÄåöüßéñ"]
    with lab.transaction() as cursor:
        for n, word in enumerate(written):
            cursor.execute(f"INSERT IGNORE INTO {table} VALUES (%s, %s)", (word, n))
        cursor.execute(f"SELECT k FROM {table}")
        return [row[0] for row in cursor.fetchall()]


def test_the_order_of_the_collation_and_not_of_the_language_bounds_chunks(lab: Lab, small_chunks: int) -> None:
    """flink-cdc #2075, FLINK-36579, FLINK-39749: bounds were compared in Java, whose order of texts is not the
    server's.

    Tidemark computes and compares bounds in the server only, under the column's own collation.
    """
    kept = {name: words_under(lab, *collation, name) for name, collation in COLLATIONS.items()}
    assert len(kept["bin"]) > len(kept["unicode"]) > 3 * small_chunks
    source = open_source({**lab.address, "tls": "disabled"})
    with closing(source), closing(source.snapshot_reader("me", ReadOptions())) as reader:
        for name, words in kept.items():
            for size in (1, 2, small_chunks):
                chunks = [
                    chunk.column("k").to_pylist() for chunk in read_in_chunks(reader, TableId(lab.database, name), size)
                ]
                assert sorted(word for chunk in chunks for word in chunk) == sorted(words), name
                assert {len(chunk) for chunk in chunks[:-1]} == {size}, name


def test_keys_that_only_their_collation_tells_apart_or_not_are_exact(lab: Lab, small_chunks: int) -> None:
    """The same through the pipeline: what the server calls equal are different texts in the target, and move there."""
    names = ("german2", "nopad_bin")
    kept = {name: words_under(lab, *COLLATIONS[name], name) for name in names}
    lab.replicate()
    assert lab.run_and_compare(len(names)) == sum(map(len, kept.values()))
    for name in names:
        assert_chunked(lab, name, len(kept[name]), small_chunks)
        lab.execute(
            f"UPDATE {name} SET k = 'é ' WHERE n = {WORDS.index('é')}",
            f"DELETE FROM {name} WHERE k = 'n'",
            f"INSERT INTO {name} VALUES ('N', -1)",
        )
    lab.run_and_compare(len(names))


@contextmanager
def growing(lab: Lab) -> Iterator[None]:
    """Insert at the end of `t` in a thread, thousands of rows a second."""
    stop = threading.Event()

    def grow() -> None:
        connection = lab.connect(database=lab.database)
        with connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("INSERT INTO t (v) VALUES (1), (2), (3), (4), (5), (6), (7), (8)")
                stop.wait(0.002)
        connection.close()

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def test_an_unbounded_last_chunk(lab: Lab, small_chunks: int) -> None:
    """seatunnel #12361, flink-cdc #1375: the last chunk has no upper bound and grows with the table, until memory is
    full.

    Tidemark fixes the end key when the snapshot starts: what comes after it comes from the log.
    """
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    with lab.transaction() as cursor:
        insert(cursor, "t (v)", [(n,) for n in range(ROWS)])
    lab.replicate("t")
    with growing(lab):
        lab.run()
    total = lab.run_and_compare(1)
    run = lab.table("t").runs.get()
    end = int(run.end_key[0])
    assert total > end >= ROWS
    assert sum(chunk_rows(lab, "t")) == end
    assert lab.table("t").rows_inserted >= total - end


def test_a_table_added_at_a_restart_gets_its_snapshot(lab: Lab) -> None:
    """Debezium DBZ-175, DBZ-4834: a table that the list of tables got later was followed, its rows never read.

    Tidemark reads every table that capture begins to follow; the others go on as they are.
    """
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)", "CREATE TABLE c (v INT)")
    lab.execute("INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1), (2), (3)", "INSERT INTO c VALUES (1), (1)")
    lab.replicate("a")
    assert lab.run_and_compare(1) == 2
    lab.execute("INSERT INTO a VALUES (3)", "UPDATE b SET id = 4 WHERE id = 1", "INSERT INTO c VALUES (1)")
    added = [SelectionEntry(lab.database, "b"), SelectionEntry(lab.database, "c")]
    services.add_tables(replicator=lab.replicator, selection=added)
    lab.execute("DELETE FROM b WHERE id = 2", "INSERT INTO c VALUES (2)")
    assert lab.run_and_compare(3) == 3 + 2 + 4
    assert (lab.table("a").runs.count(), lab.table("a").rows_inserted) == (1, 1)


@pytest.mark.parametrize("how", ["removed", "excluded"])
def test_a_table_excluded_and_included_again_gets_its_snapshot_again(lab: Lab, how: str) -> None:
    """As above, and the worse case: rows of the first time are there and look right, but what changed meanwhile is
    missing.
    """
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO b VALUES (1)")
    lab.replicate()
    assert lab.run_and_compare(2) == 4
    if how == "removed":
        services.remove_table(replicator=lab.replicator, table=TableId(lab.database, "a"))
    else:
        out = [SelectionEntry(lab.database, "a", excluded=True), SelectionEntry(lab.database)]
        services.add_tables(replicator=lab.replicator, selection=out)
    lab.execute("UPDATE a SET v = 20 WHERE id = 2", "DELETE FROM a WHERE id = 1", "INSERT INTO b VALUES (2)")
    assert lab.run_and_compare(1) == 2
    assert set(lab.states()) == {"b"}
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "a")])
    lab.execute("INSERT INTO a VALUES (4, 4)")
    assert lab.run_and_compare(2) == 3 + 2
    assert lab.table("b").runs.count() == 1
