"""Fault points: each is known and in its place; armed faults fire once, when they are due, and say so first."""

from __future__ import annotations

import errno
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator import faults
from replicator.errors import TidemarkError
from replicator.faults import POINTS, Fault, FaultInjected, reach
from replicator.sources.registry import KINDS
from tests.crash.plan import FAILED_OVER, REDO_HELD, Deck

ROOT = Path(__file__).resolve().parents[2]
POINT, OTHER = "capture.journal.before", "capture.journal.after"
REACHED = re.compile(r"""\breach\(([^)]*)\)""")


@pytest.fixture(autouse=True)
def unarmed() -> Iterator[None]:
    yield
    faults.disarm()


def reached_in_the_source() -> dict[str, Counter[str]]:
    """Count the `reach` calls by point and kind of target; "" is all code outside of targets."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for folder in ("replicator", "webapp"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "faults.py":
                place = path.relative_to(ROOT).parts
                kind = place[2] if place[:2] == ("replicator", "targets") and len(place) > 3 else ""
                found[kind].update(argument.strip("\"'") for argument in REACHED.findall(path.read_text()))
    return found


def test_every_point_is_reached_at_one_place_and_every_reach_names_a_point() -> None:
    found = reached_in_the_source()
    elsewhere, targets = found.pop(""), list(found.values())
    assert set().union(elsewhere, *targets) == set(POINTS)
    assert not set(elsewhere).intersection(*targets)
    for reached in (elsewhere, *targets):  # each source has its own connection
        assert dict(reached) == {point: len(KINDS) if point.startswith("source.") else 1 for point in reached}


def test_every_point_says_what_it_means() -> None:
    assert all(POINTS.values())
    assert len(set(POINTS.values())) == len(POINTS)


def test_nothing_happens_unless_armed() -> None:
    for point in POINTS:
        reach(point)


def test_a_fault_fires_once_at_its_hit() -> None:
    faults.arm([Fault(POINT, "fail", hit=2)])
    reach(POINT)
    reach(OTHER)
    with pytest.raises(FaultInjected) as raised:
        reach(POINT)
    assert (raised.value.code, raised.value.retryable) == ("fault", True)
    assert isinstance(raised.value, TidemarkError)
    reach(POINT)


def test_several_faults_of_one_point_have_their_own_hits() -> None:
    faults.arm([Fault(POINT, "fail"), Fault(POINT, "full", hit=3)])
    with pytest.raises(FaultInjected):
        reach(POINT)
    reach(POINT)
    with pytest.raises(OSError, match="No space left") as raised:
        reach(POINT)
    assert raised.value.errno == errno.ENOSPC


def test_disarmed_faults_do_not_fire() -> None:
    faults.arm([Fault(POINT, "fail")])
    faults.disarm()
    reach(POINT)


def test_threads_count_together() -> None:
    faults.arm([Fault(POINT, "fail", hit=4000)])
    fired: list[FaultInjected] = []

    def work() -> None:
        for _ in range(1000):
            try:
                reach(POINT)
            except FaultInjected as fault:
                fired.append(fault)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fired) == 1


@pytest.mark.parametrize(("action", "others_go_on"), [("stall", False), ("pause", True)])
def test_a_stall_stops_every_thread_and_a_pause_only_its_own(action: faults.Action, others_go_on: bool) -> None:
    stop, beats = threading.Event(), [time.monotonic()]

    def beat() -> None:
        while not stop.wait(0.01):
            beats.append(time.monotonic())

    other = threading.Thread(target=beat)
    other.start()
    time.sleep(0.05)
    faults.arm([Fault(POINT, action, seconds=0.5)])
    started = time.monotonic()
    reach(POINT)
    took = time.monotonic() - started
    stop.set()
    other.join()
    during = [at for at in beats if started + 0.1 < at < started + 0.4]
    assert took >= 0.5
    assert bool(during) is others_go_on


def test_what_fires_is_in_the_journal_before_it_acts(tmp_path: Path) -> None:
    journal = tmp_path / "faults.jsonl"
    program = (
        "import sys; from pathlib import Path; from replicator import faults\n"
        f"faults.arm([faults.Fault({POINT!r}, 'kill', hit=2)], Path(sys.argv[1]))\n"
        f"faults.reach({POINT!r}); print('once', flush=True); faults.reach({POINT!r}); print('never')\n"
    )
    command = [sys.executable, "-c", program, str(journal)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (-9, "once\n")
    (line,) = map(json.loads, journal.read_text().splitlines())
    assert {key: line[key] for key in ("pid", "point", "action", "hit")} == {
        "pid": process.pid,
        "point": POINT,
        "action": "kill",
        "hit": 2,
    }
    assert abs(line["time"] - time.time()) < 60


def test_the_environment_arms_and_warns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    assert not faults.arm_from_environment()
    monkeypatch.setenv(faults.VARIABLE, f" {POINT}=fail@2 ; {OTHER}=pause:0.5 ")
    monkeypatch.setenv(faults.FILE_VARIABLE, str(tmp_path / "fired"))
    with caplog.at_level(logging.WARNING, "tidemark.faults"):
        assert faults.arm_from_environment()
    assert "Faults are armed" in caplog.text
    reach(POINT)
    with pytest.raises(FaultInjected):
        reach(POINT)
    assert json.loads((tmp_path / "fired").read_text())["hit"] == 2


def test_faults_are_read_as_they_are_written() -> None:
    text = f"{POINT}=kill;{OTHER}=stall:12.5@3"
    assert faults.parse(text) == [Fault(POINT, "kill"), Fault(OTHER, "stall", 3, 12.5)]


@pytest.mark.parametrize(
    "text", ["nowhere=kill", f"{POINT}=explode", POINT, f"{POINT}=kill@0", f"{POINT}=stall:-1", f"{POINT}=stall:long"]
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        faults.parse(text)


def test_histories_over_a_secondary_have_its_faults_and_others_have_not() -> None:
    dealt = {}
    for version in ("", "tracking", "secondary"):
        deck = Deck(1, "sqlserver", version)
        dealt[version] = {fault for _ in range(30) for fault in deck.deal().outer}
    assert dealt["secondary"] - dealt[""] == {FAILED_OVER, REDO_HELD}
    assert dealt["tracking"] == dealt[""] < dealt["secondary"]
