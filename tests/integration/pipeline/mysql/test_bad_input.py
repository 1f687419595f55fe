"""Bad input ends in one clear sentence with a remedy; nothing is lost, and the other tables go on."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from replicator.sources.mysql.offset import BinlogOffset
from tests.integration.pipeline.lab import Lab
from webapp.connections import services as connections

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


def failed_checks(lab: Lab, **changes: object) -> dict[str, str]:
    config = {**lab.address, "tls": "disabled", **changes}
    return {c.name: c.remedy for c in connections.test_connection(kind="mysql", config=config) if c.status == "failed"}


def test_wrong_password_and_unreachable_host(lab: Lab) -> None:
    assert failed_checks(lab, password="wrong")["reachable"]
    assert failed_checks(lab, port=1)["reachable"]
    assert failed_checks(lab) == {}


def test_a_missing_grant_is_named_with_its_sql(lab: Lab) -> None:
    user = f"{lab.name}_u"
    lab.execute(f"CREATE OR REPLACE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    assert "GRANT REPLICATION SLAVE" in failed_checks(lab, user=user, password="pw")["grant_replication_slave"]


@pytest.mark.parametrize(
    ("variable", "bad", "good", "check"),
    [
        ("binlog_format", "MIXED", "ROW", "binlog_format"),
        ("binlog_row_image", "MINIMAL", "FULL", "binlog_row_image"),
        ("binlog_row_metadata", "MINIMAL", "FULL", "binlog_row_metadata"),
    ],
)
def test_a_wrong_server_setting_is_named_with_its_sql(lab: Lab, variable: str, bad: str, good: str, check: str) -> None:
    lab.execute(f"SET GLOBAL {variable} = '{bad}'")
    try:
        assert f"SET GLOBAL {variable}" in failed_checks(lab)[check]
    finally:
        lab.execute(f"SET GLOBAL {variable} = '{good}'")


def test_a_partial_row_image_stops_its_table_only(lab: Lab) -> None:
    lab.execute("CREATE TABLE bad (id INT PRIMARY KEY, v INT)", "CREATE TABLE good (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO bad VALUES (1, 1), (2, 2)")
    lab.replicate()
    lab.run_and_compare(2)
    before = lab.log_end()
    lab.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE bad SET v = 3 WHERE id = 1")
    lab.execute("SET SESSION binlog_row_image = 'FULL'", "INSERT INTO good VALUES (1)")
    with pytest.raises(CommandError):
        lab.run()
    assert lab.states() == {"bad": "failed", "good": "streaming"}
    bad = lab.table("bad")
    assert bad.error_code == "row_image_incomplete"
    assert "binlog_row_image" in bad.error_remedy
    failure = bad.failures.get()
    after, until = (BinlogOffset(file, int(at)) for file, at in places(failure.offset_after, failure.offset_until))
    assert after <= before <= until


def places(*texts: str) -> list[list[str]]:
    return [text.rsplit(":", 1) for text in texts]


def test_a_skipped_table_stands_still_and_is_exact_again_when_it_is_resumed(lab: Lab) -> None:
    from webapp.replicators import services

    lab.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
    lab.execute(
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)", "CREATE TABLE plain (v INT)", "INSERT INTO plain VALUES (7)"
    )
    lab.replicate()
    lab.run_and_compare(3)
    for name in ("a", "plain"):
        services.skip_table(table=lab.table(name))
    lab.execute(
        "DELETE FROM a WHERE id = 1", "UPDATE a SET v = 20 WHERE id = 2", "ALTER TABLE a ADD COLUMN w INT DEFAULT 5"
    )
    lab.execute("INSERT INTO a VALUES (4, 4, 4)", "INSERT INTO b VALUES (1, 1)", "INSERT INTO plain VALUES (7), (8)")
    lab.run()
    assert lab.states() == {"a": "skipped", "b": "streaming", "plain": "skipped"}
    assert {str(report.pair): report.equal for report in lab.compare()} == {
        f"{lab.database}.a": False, f"{lab.database}.b": True, f"{lab.database}.plain": False
    }  # fmt: skip
    out = io.StringIO()
    call_command("verify", lab.name, json=True, stdout=out)
    told = json.loads(out.getvalue())
    assert (told["equal"], [one["table"] for one in told["tables"]]) == (True, [f"{lab.database}.b"])
    assert told["skipped"] == [f"{lab.database}.a", f"{lab.database}.plain"]
    for name in ("a", "plain"):
        services.resume_table(table=lab.table(name))
    assert lab.run_and_compare(3) == 7


def test_a_failed_table_comes_back_by_a_resnapshot(lab: Lab) -> None:
    from webapp.replicators import services

    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    lab.replicate()
    lab.run_and_compare(1)
    lab.execute("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET v = 30 WHERE id = 3")
    lab.execute("SET SESSION binlog_row_image = 'FULL'")
    with pytest.raises(CommandError):
        lab.run()
    lab.execute("DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    services.resnapshot_table(table=lab.table("t"))
    assert lab.run_and_compare(1) == 3


def test_a_table_that_disappears_during_the_snapshot(lab: Lab) -> None:
    lab.execute("CREATE TABLE gone (id INT PRIMARY KEY)", "CREATE TABLE stays (id INT PRIMARY KEY)")
    lab.execute("INSERT INTO stays VALUES (1)")
    lab.replicate()
    lab.execute("DROP TABLE gone")
    try:
        lab.run()
    except CommandError:
        assert lab.table("gone").error_code == "table_disappeared"
    assert lab.table("stays").state == "streaming"
    assert lab.assert_equal() >= 1
