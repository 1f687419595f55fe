"""One table's trouble, or another session's, with everything around it: what people see, and that the rest goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from django.core.management.base import CommandError

from tests.crash.faults.proxy import Proxy
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.models import Status
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def open_proxies() -> Iterator[ExitStack]:
    """Closed after the lab, which says good-bye by way of them."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("codes", [("42P17", 1712), ("42501", 1142)], ids=["refused", "denied"])
def test_an_error_for_one_table_stops_that_table_only(
    open_proxies: ExitStack, any_lab: Lab, codes: tuple[Any, Any]
) -> None:
    """For any error: the others are loaded and follow the log, and a user's resnapshot brings the table back."""
    lab = any_lab
    postgres = isinstance(lab, PostgresLab)
    lab.execute(*(f"CREATE TABLE t{n} (id INT PRIMARY KEY, v INT)" for n in range(4)))
    lab.execute(*(f"INSERT INTO t{n} VALUES (1, 1), (2, 2)" for n in range(4)))
    quote = '"' if postgres else "`"
    bad = f"FROM {'ONLY ' if postgres else ''}{quote}{lab.database}{quote}.{quote}t2{quote}".encode()
    proxy = open_proxies.enter_context(
        Proxy(lab.address["host"], lab.address["port"], speaks="postgres" if postgres else "mysql")
    )
    lab.connection(port=proxy.port)
    lab.replicate()
    code = codes[0] if postgres else codes[1]
    proxy.answer_errors(10_000, [code], wanted=lambda statement: bad in statement)
    with pytest.raises(CommandError, match=r"t2"):
        lab.run()
    lab.execute("UPDATE t1 SET v = 3", "UPDATE t2 SET v = 3", "DELETE FROM t3 WHERE id = 1")
    with pytest.raises(CommandError, match=r"t2"):
        lab.run()
    assert lab.states() == {"t0": "streaming", "t1": "streaming", "t2": "failed", "t3": "streaming"}
    table = lab.table("t2")
    assert str(code) in table.error_message
    assert "the proxy answers an error" in table.error_message
    assert lab.replicator.status != Status.FAILED
    proxy.answer_errors(0, ())
    services.resnapshot_table(table=table)
    assert lab.run_and_compare(4) == 7


@pytest.fixture
def postgres_lab(postgres_source: EmbeddedPostgresSource, transactional_db: Any) -> Any:
    one = PostgresLab(postgres_source.address, f"lab_{time.time_ns() % 10**9}")
    yield one
    one.close()


def test_a_start_beside_an_open_transaction_waits_says_for_whom_and_stops_within_seconds(
    postgres_lab: PostgresLab,
) -> None:
    lab = postgres_lab
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    lab.replicate()
    with closing(lab.connect()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (2)")
        with HeadlessRun(lab.replicator) as run:
            deadline = time.monotonic() + 180
            while not lab.replicator.error_code and time.monotonic() < deadline:
                time.sleep(0.2)
            seen = lab.replicator
            assert (seen.status, seen.error_code) == (Status.RETRYING, "source_busy")
            assert f"pid {other.info.backend_pid}" in seen.error_message
            assert f"pg_terminate_backend({other.info.backend_pid})" in seen.error_remedy
            asked = time.monotonic()
            services.pause_replicator(replicator=lab.replicator)
            run.wait(None, 10)
        assert time.monotonic() - asked < 60, "the transaction is open all the while"
        services.resume_replicator(replicator=lab.replicator)
        threading.Timer(12, lambda: cursor.execute("COMMIT")).start()
        assert lab.run_and_compare(1) == 2
    assert lab.replicator.error_code == ""
    assert lab.replicator.status != Status.FAILED
