"""Rows that cannot be decoded are dead_letters: the others of their table go on, exactly; read again, nothing is
missing.

The values: a date that is none, with the policy to fail, and half of a surrogate pair, which no text of the target can
hold.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from replicator.engine.capture import capture
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.integration.regressions_of_other_tools.test_log import capture_until_killed
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.monitoring.dead_letters.services import discard, replay
from webapp.monitoring.models import DeadLetterRow, Failure, LogLine, TimelineEvent
from webapp.replicators.models import Scope

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
OPTIONS = {"on_decode_error": "dead_letter", "zero_dates": "fail"}


@pytest.fixture
def postgres_lab(postgres_source: EmbeddedPostgresSource, transactional_db: Any) -> Iterator[PostgresLab]:
    one = PostgresLab(postgres_source.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def differing(lab: Lab) -> dict[str, set[str | None]]:
    """Keys of the rows that are not equal, by table."""
    return {report.pair.table: {one.row["id"] for one in report.differences} for report in lab.compare()}


def dead_letters(lab: Lab, name: str) -> list[tuple[str, str]]:
    """Operation and column of those that wait, in the order of the log."""
    rows = DeadLetterRow.objects.filter(table=lab.table(name), resolved_at=None).order_by("sequence")
    return list(rows.values_list("operation", "column"))


def keys(lab: Lab, name: str) -> list[list[str]]:
    """Of those that wait, in the order of the log: the values of all their keys."""
    rows = DeadLetterRow.objects.filter(table=lab.table(name), resolved_at=None).order_by("sequence")
    return [[value for key in found for value in key.values()] for found in rows.values_list("keys", flat=True)]


def told_of(lab: Lab, kind: str) -> list[str]:
    found = TimelineEvent.objects.filter(replicator=lab.replicator, kind=kind)
    return list(found.order_by("id").values_list("summary", flat=True))


def verified(lab: Lab) -> dict[str, Any]:
    out = io.StringIO()
    with suppress(SystemExit):
        call_command("verify", lab.name, json=True, wait=0, stdout=out)
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def test_bad_rows_are_dead_letters_once_whatever_dies_and_a_replay_makes_the_table_exact(
    lab: Lab, process_environment: dict[str, str]
) -> None:
    columns = "id INT PRIMARY KEY, v INT, d DATE, w VARCHAR(20) CHARACTER SET ucs2"
    lab.execute(f"CREATE TABLE t ({columns})", "CREATE TABLE good (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO t SELECT seq, seq, '2026-03-01', 'x' FROM seq_1_to_300")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(2)
    with lab.transaction() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO t SELECT seq, seq, '2026-03-02', 'y' FROM seq_1001_to_1200")
        cursor.execute("INSERT INTO t VALUES (2000, 1, '0000-00-00', 'zero'), (2001, 2, '2026-03-03', 'fine')")
        cursor.execute("INSERT INTO t VALUES (2002, 3, NULL, CONVERT(0xD800 USING ucs2)), (2003, 4, NULL, NULL)")
        cursor.execute("UPDATE t SET v = -v, d = IF(id = 7, '0000-00-00', d) WHERE id <= 20")
        cursor.execute("DELETE FROM t WHERE id BETWEEN 100 AND 120")
        cursor.execute("INSERT INTO good VALUES (1), (2)")
    capture_until_killed(lab, "capture.journal.before=kill", process_environment)
    assert DeadLetterRow.objects.count() == 0
    capture_until_killed(lab, "journal.written=kill@2", process_environment)
    assert DeadLetterRow.objects.count() == 0
    capture_until_killed(lab, "capture.journal.after=kill", process_environment)
    wanted = [("INSERT", "d"), ("INSERT", "w"), ("UPDATE", "d")]
    assert dead_letters(lab, "t") == wanted
    lab.run()
    assert (lab.states(), dead_letters(lab, "t")) == ({"t": "streaming", "good": "streaming"}, wanted)
    assert differing(lab) == {"t": {"2000", "2002", "7"}, "good": set()}
    row = DeadLetterRow.objects.filter(operation="UPDATE").get()
    assert row.offset.startswith(lab.log_end().file.split(".")[0])
    assert row.txn_id
    assert row.size == len(row.data) > 0
    assert TimelineEvent.objects.filter(kind="dead_letter_rows").count() == 1
    assert LogLine.objects.filter(level="warning", message__contains="dead-letter").exists()
    assert not Failure.objects.filter(table=lab.table("t")).exists()
    told = verified(lab)
    assert (told["equal"], told["dead_letters"]) == (False, {f"{lab.database}.t": 3})
    lab.execute(
        "SET SESSION sql_mode = ''",
        "UPDATE t SET d = '2026-03-04' WHERE d = 0",
        "UPDATE t SET w = 'text' WHERE id = 2002",
    )
    lab.run()
    assert dead_letters(lab, "t") == [*wanted, *[("UPDATE", "d")] * 2, ("UPDATE", "w")]
    assert keys(lab, "t") == [["2000"], ["2002"], ["7"], ["7"], ["2000"], ["2002"]]
    run = replay(table=lab.table("t"))
    assert (run.scope, run.rows_estimate, lab.states()["t"]) == (Scope.KEYS, 3, "streaming")
    lab.run_and_compare(2)
    assert (dead_letters(lab, "t"), lab.table("t").dead_letters) == ([], 0)
    assert set(DeadLetterRow.objects.values_list("resolution", flat=True)) == {"read_anew"}
    assert verified(lab)["dead_letters"] == {}
    assert told_of(lab, "dead_letters_resolved") == [
        f"6 dead-letter rows of {lab.table('t')} resolved by the snapshot of {run.what}"
    ]
    assert lab.table("t").runs.filter(scope=Scope.WHOLE).count() == 1  # the first


def test_a_replay_by_keys_brings_what_changed_went_and_came_back_and_nothing_else(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (a INT, b VARCHAR(10), v INT, d DATE, PRIMARY KEY (a, b))")
    lab.execute("INSERT INTO t SELECT seq, CONCAT('k', seq), seq, NULL FROM seq_1_to_50")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(1)
    with lab.transaction() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("UPDATE t SET d = 0, b = 'moved' WHERE a = 1")
        cursor.execute("UPDATE t SET d = 0 WHERE a IN (2, 3)")
        cursor.execute("INSERT INTO t VALUES (100, 'bad', 1, 0), (101, 'bad', 1, 0)")
    lab.run()
    assert keys(lab, "t")[0] == ["1", "k1", "1", "moved"]
    with lab.transaction() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("DELETE FROM t WHERE a IN (3, 100)")
        cursor.execute("UPDATE t SET d = '2026-01-01' WHERE d = 0")
        cursor.execute("INSERT INTO t VALUES (3, 'k3', 33, NULL)")
    run = replay(table=lab.table("t"))  # before the log was read on: what cannot be decoded then is another matter
    lab.execute("UPDATE t SET v = v + 1000")
    lab.run()
    assert [operation for operation, _ in dead_letters(lab, "t")] == ["DELETE", "DELETE", "UPDATE", "UPDATE", "UPDATE"]
    assert DeadLetterRow.objects.filter(resolution="read_anew").count() == 5
    assert (lab.run_and_compare(1), run.rows_estimate) == (51, 6)
    assert replay(table=lab.table("t")).scope == Scope.KEYS
    assert lab.run_and_compare(1) == 51
    assert dead_letters(lab, "t") == []


def test_a_value_that_is_still_bad_ends_the_replay_and_not_the_table(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, d DATE)")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(1)
    lab.execute("SET SESSION sql_mode = ''", "INSERT INTO t VALUES (1, 0), (2, NULL)")
    lab.run()
    run = replay(table=lab.table("t"))
    with suppress(CommandError):
        lab.run()
    run.refresh_from_db()
    assert (run.state, lab.states()["t"], len(dead_letters(lab, "t"))) == ("cancelled", "streaming", 1)
    assert "is not a valid value of date" in run.error
    lab.execute("UPDATE t SET d = NULL WHERE id = 1")
    lab.run()
    replay(table=lab.table("t"))
    assert lab.run_and_compare(1) == 2
    assert dead_letters(lab, "t") == []


def test_where_a_key_is_not_known_the_whole_table_is_read(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT, d DATE, PRIMARY KEY (id, d))", "CREATE TABLE keyless (d DATE)")
    lab.execute("INSERT INTO t VALUES (1, '2026-01-01')")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(2)
    lab.execute("SET SESSION sql_mode = ''", "INSERT INTO t VALUES (2, 0)", "INSERT INTO keyless VALUES (0), (NULL)")
    lab.execute(
        "SET SESSION sql_mode = ''", "UPDATE t SET d = '2026-01-02' WHERE d = 0", "DELETE FROM keyless WHERE d = 0"
    )
    lab.run()
    for name, why in (("t", "the key of a dead-letter row is unknown"), ("keyless", "has no key")):
        run = replay(table=lab.table(name))
        assert (run.scope, why in run.reason) == (Scope.WHOLE, True)
    assert any("as a whole" in summary for summary in told_of(lab, "snapshot_asked"))
    lab.run_and_compare(2)
    assert (dead_letters(lab, "t"), dead_letters(lab, "keyless")) == ([], [])


def test_a_table_without_key_goes_on_without_its_bad_rows(lab: Lab) -> None:
    lab.execute(
        "CREATE TABLE t (v INT, d DATE)", "INSERT INTO t VALUES (1, '2026-01-01'), (1, '2026-01-01'), (2, NULL)"
    )
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(1)
    lab.execute("SET SESSION sql_mode = ''", "INSERT INTO t VALUES (3, '0000-00-00'), (1, '2026-01-01'), (4, NULL)")
    lab.execute(
        "DELETE FROM t WHERE v = 1 LIMIT 2",
        "UPDATE t SET v = 5 WHERE v IN (3, 4)",
        "DELETE FROM t WHERE v = 5 AND d = 0",
    )
    assert lab.run_and_compare(1) == 3
    assert [operation for operation, _ in dead_letters(lab, "t")] == ["INSERT", "UPDATE", "DELETE"]
    assert discard(table=lab.table("t")) == 3


def test_too_many_bad_rows_stop_their_table_with_a_sentence(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_DEAD_LETTERS", 10)
    for name in ("bad", "good"):
        lab.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, d DATE)")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(2)
    lab.execute("SET SESSION sql_mode = ''")
    for start in (1, 9):
        lab.execute(
            f"INSERT INTO bad SELECT seq, '0000-00-00' FROM seq_{start}_to_{start + 7}",
            f"INSERT INTO good VALUES ({start}, NULL)",
        )
    with pytest.raises(CommandError):
        lab.run()
    bad = lab.table("bad")
    assert (lab.states(), bad.error_code) == ({"bad": "failed", "good": "streaming"}, "too_many_dead_letters")
    assert "More than 10 rows of a table cannot be decoded" in bad.error_message
    assert "'0000-00-00', which is not a valid date" in bad.error_message
    assert bad.dead_letters == DeadLetterRow.objects.filter(table=bad).count() <= 16
    lab.execute("TRUNCATE TABLE bad", "INSERT INTO bad VALUES (100, NULL)")
    replay(table=bad)
    lab.run_and_compare(2)
    assert lab.table("bad").dead_letters == 0


def test_a_child_that_an_undecodable_delete_may_have_cascaded_to_is_read_again(lab: Lab) -> None:
    lab.execute("CREATE TABLE parent (id INT PRIMARY KEY, d DATE)")
    lab.execute(
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)"
    )
    lab.execute("INSERT INTO parent VALUES (1, NULL), (2, NULL)", "INSERT INTO child VALUES (10, 1), (20, 2), (21, 2)")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(2)
    lab.execute(
        "SET SESSION sql_mode = ''",
        "UPDATE parent SET d = '0000-00-00' WHERE id = 2",
        "DELETE FROM parent WHERE id = 2",
    )
    lab.run()
    assert dead_letters(lab, "parent") == [("UPDATE", "d"), ("DELETE", "d")]
    assert differing(lab) == {"parent": {"2"}, "child": set()}


def test_postgres_rows_are_dead_letters_and_replayed(
    postgres_lab: PostgresLab, process_environment: dict[str, str]
) -> None:
    lab = postgres_lab
    lab.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int, d date, at timestamptz)", "CREATE TABLE good (id int PRIMARY KEY)"
    )
    lab.execute("INSERT INTO t SELECT n, n, '2026-03-01', now() FROM generate_series(1, 300) n")
    lab.replicate(options=OPTIONS)
    lab.run_and_compare(2)
    with lab.transaction() as cursor:
        cursor.execute("INSERT INTO t SELECT n, n, '2026-03-02', NULL FROM generate_series(1001, 1200) n")
        cursor.execute("INSERT INTO t VALUES (2000, 1, 'infinity', NULL), (2001, 2, '2026-03-03', NULL)")
        cursor.execute("INSERT INTO t VALUES (2002, 3, NULL, '-infinity'), (2003, 4, '20000-01-01', NULL)")
        cursor.execute("UPDATE t SET v = -v, d = CASE id WHEN 7 THEN '-infinity' ELSE d END WHERE id <= 20")
        cursor.execute("DELETE FROM t WHERE id BETWEEN 100 AND 120")
        cursor.execute("INSERT INTO good VALUES (1), (2)")
    capture_until_killed(lab, "journal.written=kill@2", process_environment)
    assert DeadLetterRow.objects.count() == 0
    capture_until_killed(lab, "capture.journal.after=kill", process_environment)
    wanted = [("INSERT", "d"), ("INSERT", "at"), ("INSERT", "d"), ("UPDATE", "d")]
    assert dead_letters(lab, "t") == wanted
    lab.run()
    assert (lab.states(), dead_letters(lab, "t")) == ({"t": "streaming", "good": "streaming"}, wanted)
    assert differing(lab) == {"t": {"2000", "2002", "2003", "7"}, "good": set()}
    assert bytes(DeadLetterRow.objects.get(operation="UPDATE").data)[:1] == b"U"
    lab.execute("UPDATE t SET d = '2026-03-04', at = NULL WHERE id >= 2000 OR id = 7", "DELETE FROM t WHERE id = 2000")
    lab.run_and_compare(2)  # with its key alone a row that is mended in the source is mended in the copy
    assert dead_letters(lab, "t") == wanted
    assert keys(lab, "t") == [["2000"], ["2002"], ["2003"], ["7"]]
    run = replay(table=lab.table("t"))
    assert (run.scope, run.rows_estimate) == (Scope.KEYS, 4)
    lab.run_and_compare(2)
    assert (dead_letters(lab, "t"), lab.table("t").dead_letters) == ([], 0)
