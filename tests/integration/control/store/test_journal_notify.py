"""Subscribers of a journal are notified of its entries."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from replicator.state.journal import SchemaVersion
from tests.integration.control.conftest import ORDERS, Captured, schema_of, segment
from webapp.replicators.journal_notify import subscribe_to_journal

pytestmark = pytest.mark.django_db(transaction=True)
LONG = 30.0


def test_an_entry_wakes_the_subscribers_of_its_replicator_only(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    with subscribe_to_journal(capture.replicator.pk) as wake:
        assert wake.wait(LONG)  # what came before the listener was there
        with subscribe_to_journal(capture.replicator.pk + 1) as other:
            capture.commit(next_sequence=1)  # nothing to apply
            assert not wake.wait(0.3)
            capture.commit(
                next_sequence=10, schemas=(SchemaVersion(1, schema_of(ORDERS)),), segments=(segment(ORDERS, 0, 9),)
            )
            assert wake.wait(LONG)
            assert not other.wait(0.1)


def test_a_listener_that_was_cut_off_listens_again(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    with subscribe_to_journal(capture.replicator.pk) as wake:
        wake.wait(LONG)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <>"
                " pg_backend_pid()"
            )
            assert len(cursor.fetchall()) == 1
        assert wake.wait(LONG)  # when it is back, because something may have been missed
        capture.commit(
            next_sequence=10, schemas=(SchemaVersion(1, schema_of(ORDERS)),), segments=(segment(ORDERS, 0, 9),)
        )
        assert wake.wait(LONG)
