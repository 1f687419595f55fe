"""The metadata database ends one of two transactions that wait for each other."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg2
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction

from webapp.database import stored

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
LOCK = "SELECT FROM auth_user WHERE username = %s FOR UPDATE"


def test_the_one_that_was_undone_is_made_again() -> None:
    """Capture used to fail, and report an outage, where it deadlocked with a user's request for a snapshot."""
    for name in "ab":
        User.objects.create_user(name)
    server, _, _ = settings.DATABASE_URL.rpartition("/")
    locked, tries = threading.Event(), []
    with closing(psycopg2.connect(f"{server}/{connection.settings_dict['NAME']}")) as other, other.cursor() as theirs:
        theirs.execute("SET deadlock_timeout = '1h'")  # ours is the one that finds it
        theirs.execute(LOCK, ["b"])

        def both() -> None:
            locked.wait(30)
            theirs.execute(LOCK, ["a"])
            other.commit()

        thread = threading.Thread(target=both)
        thread.start()

        @stored
        def ours() -> str:
            tries.append(len(tries))
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL deadlock_timeout = '200ms'")
                cursor.execute(LOCK, ["a"])
                locked.set()
                cursor.execute(LOCK, ["b"])
            return "done"

        assert ours() == "done"
        thread.join()
    assert len(tries) > 1
