"""What a verification learns from the journal between two looks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from replicator.sources.base import SourceState
from replicator.state.tables import TableState
from tests.integration.control.conftest import ORDERS, MemorySource, Place
from webapp.worker.store import copy_progress
from webapp.worker.store.copy_progress import CopyProgress

pytestmark = pytest.mark.django_db


def test_a_look_is_settled_only_by_what_the_log_held_some_time_after_it(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may be seen before it is in the log."""
    replicator = make(tables=(ORDERS,))
    replicator.tables.update(state=TableState.STREAMING.value, last_sequence=3, applied=3)
    ends = [5]
    monkeypatch.setattr(MemorySource, "state", lambda _: SourceState(Place(ends[0]), "server-1", datetime.now(UTC)))
    monkeypatch.setattr(copy_progress.time, "sleep", lambda _: ends.__setitem__(0, 6))

    def read_up_to(place: int) -> None:
        replicator.checkpoint_offset = Place(place).to_dict()
        replicator.save(update_fields=["checkpoint_offset"])

    read_up_to(5)
    progress = CopyProgress(replicator, list(replicator.tables.all()), 1)
    assert not progress.wait()
    read_up_to(6)
    assert progress.wait() == {str(ORDERS)}
    replicator.tables.update(last_sequence=4, applied=4)
    assert not progress.wait(), "something of it changed since"
    assert progress.wait() == {str(ORDERS)}
