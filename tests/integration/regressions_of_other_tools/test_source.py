"""Sources that went away, forgot, or became another one, and replicators elsewhere that did not notice."""

from __future__ import annotations

import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from rest_framework.test import APIClient

from replicator.sources.mysql.offset import parse_offset
from tests.integration.pipeline.lab import Lab
from tests.integration.regressions_of_other_tools.purging import purge_everything_old
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.replicators import services
from webapp.replicators.models import Status
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


class OwnServer:
    """A server that may be stopped, restored and replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = EmbeddedMariaDB(folder / "now", options={"innodb-log-file-size": "8M"})
        self.server.start()
        self._backup: Path | None = None

    def back_up(self) -> None:
        """A cold copy; runs again afterwards."""
        self.server.stop()
        self._backup = self.folder / uuid.uuid4().hex
        shutil.copytree(self.server.folder / "data", self._backup)
        self.server.start()

    def restore(self, **options: str) -> None:
        """The last copy in place of what there is, at the same address."""
        assert self._backup is not None
        self.server.stop()
        shutil.rmtree(self.server.folder / "data")
        shutil.copytree(self._backup, self.server.folder / "data")
        changed = {"innodb-log-file-size": "8M", **options}
        self.server = EmbeddedMariaDB(self.server.folder, self.server.port, options=changed)
        self.server.start()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    own = OwnServer(Path(tmp_path_factory.mktemp("source")))
    yield own
    own.server.stop()


@pytest.fixture
def lab(own: OwnServer, transactional_db: Any) -> Iterator[Lab]:
    one = Lab(own.server.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def reconnect(lab: Lab) -> None:
    """The server was away."""
    lab.sql.close()
    lab.sql.select_db(lab.database)


def start_anew(lab: Lab) -> None:
    """Through the API, as a user may."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # WhiteNoise warns where there is none
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser(uuid.uuid4().hex))
    answer = client.post(f"/api/v1/replicators/{lab.replicator.pk}/start-anew/")
    assert answer.status_code == 200, answer.content
    assert answer.json()["status"] == "starting"


def refused(lab: Lab, code: str) -> None:
    """It stops, says why and what to do, touches nothing; started again, it says the same."""
    before = lab.replicator
    for _ in range(2):
        with pytest.raises(CommandError):
            lab.run()
        after = lab.replicator
        assert (after.status, after.error_code) == (Status.FAILED, code)
        assert after.error_message
        assert "estart the replicator from scratch" in after.error_remedy
        assert (after.checkpoint_offset, after.next_sequence) == (before.checkpoint_offset, before.next_sequence)


def test_purged_gtids_on_a_log_only_start(lab: Lab) -> None:
    """debezium/dbz#2227, flink-cdc #271: a log-only start goes wrong once its GTIDs are purged, or goes on with a gap.

    Tidemark stops and says so; started again, it reads every table again, although it began with none.
    """
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    lab.replicate("t", "keyless", options={"initial_snapshot": False})
    lab.run()  # from here on
    lab.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO keyless VALUES (1), (1), (2)")
    assert lab.run_and_compare(2) == 6
    assert not lab.table("t").runs.exists()
    purge_everything_old(lab)
    lab.execute("UPDATE t SET v = 20 WHERE id = 2")
    assert lab.run_and_compare(2) == 6  # nothing that was needed is gone
    lab.execute("DELETE FROM t WHERE id = 1", "INSERT INTO keyless VALUES (3)", "DELETE FROM keyless WHERE v = 2")
    purge_everything_old(lab)
    lab.execute("INSERT INTO t VALUES (4, 4)")
    refused(lab, "log_purged")
    assert [report.equal for report in lab.compare()] == [False, False]
    start_anew(lab)
    assert lab.run_and_compare(2) == 3 + 3
    lab.execute("UPDATE t SET v = -v", "INSERT INTO keyless VALUES (3)")
    assert lab.run_and_compare(2) == 3 + 4


def test_a_purged_log_and_what_happened_meanwhile(lab: Lab) -> None:
    """flink-cdc #271: after a pause longer than the log is kept; the tables themselves changed in the gap, too.

    Tidemark, started again, finds tables that came, went, came again, and got other columns, and is exact afterwards.
    """
    lab.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("altered", "again", "t")))
    lab.execute(*(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)" for name in ("altered", "again", "t")))
    lab.replicate()
    assert lab.run_and_compare(3) == 9
    lab.execute("DROP TABLE again")
    lab.run_and_compare(2)
    highest = lab.replicator.next_sequence
    lab.execute("CREATE TABLE again (id INT PRIMARY KEY, w VARCHAR(9))", "INSERT INTO again VALUES (7, 'seven')")
    lab.execute(
        "ALTER TABLE altered DROP COLUMN v, ADD COLUMN w VARCHAR(20) DEFAULT 'new'",
        "CREATE TABLE came (id INT PRIMARY KEY)",
    )
    lab.execute("INSERT INTO came VALUES (1)", "DELETE FROM altered WHERE id = 1", "UPDATE t SET id = 30 WHERE id = 3")
    purge_everything_old(lab)
    refused(lab, "log_purged")
    start_anew(lab)
    assert lab.run_and_compare(4) == 2 + 1 + 1 + 3
    assert lab.replicator.next_sequence > highest  # never reused with another meaning
    lab.execute(
        "UPDATE altered SET w = 'old'", "UPDATE again SET w = 'x'", "INSERT INTO came VALUES (2)", "DELETE FROM t"
    )
    assert lab.run_and_compare(4) == 2 + 1 + 2


def another(own: OwnServer, lab: Lab) -> None:
    """Other data under another server_id, its log numbered from 1 again."""
    own.restore(**{"server-id": "77"})
    reconnect(lab)
    lab.execute("RESET MASTER", "UPDATE t SET v = 99", "INSERT INTO t VALUES (77, 77)")


def renumbered(own: OwnServer, lab: Lab) -> None:
    """The same server_id, its log numbered from 1 again: every position looks old."""
    own.restore()
    reconnect(lab)
    lab.execute("RESET MASTER", "UPDATE t SET v = 99", "INSERT INTO t VALUES (77, 77)")


def another_domain(own: OwnServer, lab: Lab) -> None:
    """The same server_id and a longer log, in another GTID domain."""
    own.restore(**{"gtid-domain-id": "5"})
    reconnect(lab)
    lab.execute("RESET MASTER", *["FLUSH BINARY LOGS"] * parse_offset(lab.replicator.checkpoint_offset).sequence)
    lab.execute("UPDATE t SET v = 99", "INSERT INTO t VALUES (77, 77)")


def earlier(own: OwnServer, lab: Lab) -> None:
    """Itself, as of some time ago: the place to continue from lies in its future."""
    own.restore()
    reconnect(lab)


def earlier_and_gone_on(own: OwnServer, lab: Lab) -> None:
    """Itself, as of some time ago, and then other transactions under the same GTIDs: the place is there, and means
    another.
    """
    own.restore()
    reconnect(lab)
    lab.execute(*(f"INSERT INTO t VALUES ({n}, {n * 1000})" for n in range(500, 520)), "FLUSH BINARY LOGS")
    lab.execute("INSERT INTO t VALUES (521, 0)")


@pytest.mark.parametrize(
    "replace",
    [
        another,
        earlier_and_gone_on,
        *(pytest.param(one, marks=pytest.mark.long) for one in (renumbered, another_domain, earlier)),
    ],
)
def test_a_server_replaced_behind_its_address(
    own: OwnServer, lab: Lab, replace: Callable[[OwnServer, Lab], None]
) -> None:
    """airbyte #85783, olake #1235: the saved place means another one on the new server; nothing, or nonsense, is
    copied.

    Tidemark refuses to go on, `run --until-current` included; started again, it reads every table from the new server.
    """
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.replicate()
    lab.run_and_compare(1)
    own.back_up()
    reconnect(lab)
    lab.execute("INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE id = 1", "UPDATE t SET v = 20 WHERE id = 2")
    lab.execute(
        "CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)"
    )  # not there any more, afterwards
    assert lab.run_and_compare(2) == 2 + 1
    replace(own, lab)
    refused(lab, "source_replaced")
    start_anew(lab)
    assert lab.run_and_compare(1) >= 2
    lab.execute("UPDATE t SET v = v + 1", "INSERT INTO t VALUES (1000, 0)")
    assert lab.run_and_compare(1) >= 3


def wait_for(status: Status, lab: Lab, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while lab.replicator.status != status:
        assert time.monotonic() < deadline, (lab.replicator.status, lab.replicator.error_message)
        time.sleep(0.1)


def test_a_source_that_stays_away_for_longer_than_the_retry_window(own: OwnServer, lab: Lab) -> None:
    """flink-cdc #1372, kafka-connect-jdbc #1472: retried for ever, or dead and still "running"; what came meanwhile is
    lost.

    Tidemark tries again for the time the user gave, then stops and says so; started, it goes on exactly where it was.
    """
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (v INT)")
    lab.execute("INSERT INTO t VALUES (1, 1), (2, 2)", "INSERT INTO keyless VALUES (1), (1)")
    lab.replicate(options={"retry_minutes": 0.04})
    lab.run_and_compare(2)
    with HeadlessRun(lab.replicator):
        wait_for(Status.RUNNING, lab, 30)
        lab.execute("UPDATE t SET v = 20 WHERE id = 2", "DELETE FROM keyless LIMIT 1", "INSERT INTO t VALUES (3, 3)")
        own.server.stop(signal.SIGKILL)
        began = time.monotonic()
        wait_for(Status.FAILED, lab, 60)
        assert time.monotonic() - began > 1.5
        stopped = lab.replicator
        assert (stopped.error_code, bool(stopped.error_remedy)) == ("source_unreachable", True)
        assert stopped.failures.filter(code="source_unreachable", next_retry_at=None).exists()
        assert stopped.failures.filter(code="source_unreachable").count() >= 2
        own.server.start()
        reconnect(lab)
        lab.execute("INSERT INTO t VALUES (4, 4)", "INSERT INTO keyless VALUES (7)")
        time.sleep(1.5)
        assert lab.replicator.status == Status.FAILED  # stopped until it is started again
    assert lab.run_and_compare(2) == 4 + 2
    assert lab.replicator.error_code == ""


DATES = "d DATE NOT NULL, at DATETIME(3), ts TIMESTAMP NULL, old DATETIME"
ZEROS = {  # row: how many of its values are invalid dates
    "'2024-02-29', '2024-02-29 01:02:03.5', '2024-02-29 01:02:03', NULL": 0,
    "'0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', NULL": 3,
    "'2024-00-10', '2024-05-00 00:00:00', NULL, '0000-00-00 00:00:00'": 3,
    "'2024-02-00', NULL, '1970-01-02 00:00:00', '0000-01-01 12:00:00'": 2,
}


def write_zeros(lab: Lab, first: int) -> int:
    """A row of each kind; the number of zero dates in them."""
    lab.execute("SET SESSION sql_mode = ''")
    for n, row in enumerate(ZEROS, first):
        lab.execute(f"INSERT INTO keyed VALUES ({n}, {row})", f"INSERT INTO keyless VALUES ({n}, {row})")
    return sum(ZEROS.values())


@pytest.mark.parametrize("policy", ["null", "text"])
def test_zero_dates(lab: Lab, policy: str) -> None:
    """airbyte #67623, mysql-binlog-connector-java #210: null in the snapshot, 1970 or an error from the log,
    unreported.

    Tidemark makes null or text of them in both, by policy, and counts each that became null exactly once.
    """
    lab.execute(
        *(f"CREATE TABLE {name} (id INT{key}, {DATES})" for name, key in (("keyed", " PRIMARY KEY"), ("keyless", "")))
    )
    zeros = write_zeros(lab, 0)
    lab.replicate(options={"zero_dates": policy})

    def assert_counted(keyed: int, keyless: int) -> None:
        lab.run()
        lab.assert_equal(2, zero_dates=policy)
        found = (lab.table("keyed").zero_dates, lab.table("keyless").zero_dates)
        assert found == ((keyed, keyless) if policy == "null" else (0, 0))

    assert_counted(zeros, zeros)  # by the snapshot
    write_zeros(lab, 100)
    lab.execute("START TRANSACTION", "INSERT INTO keyed SELECT id + 900, d, at, ts, old FROM keyed", "ROLLBACK")
    assert_counted(2 * zeros, 2 * zeros)  # by the log
    lab.execute(
        "UPDATE keyed SET ts = '2024-01-01' WHERE id = 1", "DELETE FROM keyed WHERE id = 2", "DELETE FROM keyless"
    )
    assert_counted(2 * zeros + 2, 2 * zeros)  # what a row holds after its change; a row that is gone holds none


def test_a_zero_date_that_shall_stop_its_table(lab: Lab) -> None:
    """As above, where the user wants to hear of it: by the policy `fail` the table stops, in the snapshot and in the
    log.
    """
    lab.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, {DATES})" for name in ("early", "late", "good")))
    lab.execute("SET SESSION sql_mode = ''", "INSERT INTO early VALUES (1, '2024-00-10', NULL, NULL, NULL)")
    lab.replicate(options={"zero_dates": "fail"})
    with pytest.raises(CommandError, match="2024-00-10"):
        lab.run()
    lab.execute("INSERT INTO late VALUES (1, '2024-01-01', NULL, '0000-00-00', NULL)")
    lab.execute("INSERT INTO good VALUES (1, '2024-01-01', NULL, NULL, NULL)")
    with pytest.raises(CommandError, match="0000-00-00"):
        lab.run()
    assert lab.states() == {"early": "failed", "late": "failed", "good": "streaming"}
    assert {lab.table(name).error_code for name in ("early", "late")} == {"value_does_not_fit"}
    lab.execute("UPDATE early SET d = '2024-01-10'", "UPDATE late SET ts = NULL")
    with pytest.raises(CommandError):
        lab.run()  # past the repair: what a row was before stands in the log, too
    for name in ("early", "late"):
        services.resnapshot_table(table=lab.table(name))
    assert lab.run_and_compare(3) == 3
