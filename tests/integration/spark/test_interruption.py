"""What Spark does for one replicator ends when that is to stop, and nothing else does."""

from __future__ import annotations

import threading
import time

import pytest

from replicator.errors import TargetError
from replicator.targets.iceberg.target import IcebergTarget
from tests.integration.spark.lake import Lake

pytestmark = [pytest.mark.integration, pytest.mark.spark]
LONG, SHORT = 10**13, 10**8


def counting(target: IcebergTarget, rows: int, ended: list[object], begun: threading.Event) -> None:
    try:
        with target._catalog.session({}) as spark:
            begun.set()
            [[count]] = spark.sql(f"SELECT sum(id % 7) FROM range({rows})").collect()
            ended.append(count)
    except TargetError as error:
        ended.append(error)


def test_a_job_is_cancelled_and_others_go_on(lake: Lake) -> None:
    other = IcebergTarget(lake.spark, lake.storage, "r2")
    ended: list[object] = []
    finished: list[object] = []
    begun, also = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=counting, args=(lake.target, LONG, ended, begun)),
        threading.Thread(target=counting, args=(other, SHORT, finished, also)),
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    assert also.wait(60)
    since = time.monotonic()
    while threads[0].is_alive() and time.monotonic() - since < 60:
        lake.target.interrupt()
        threads[0].join(1)
    [error] = ended
    assert isinstance(error, TargetError)
    threads[1].join(120)
    assert finished == [
        sum(n % 7 for n in range(7)) * (SHORT // 7) + sum(n % 7 for n in range(SHORT - SHORT % 7, SHORT))
    ]
    again: list[object] = []
    counting(lake.target, 7, again, threading.Event())
    assert again == [21]
