"""A file of definitions is what there is: an export that is applied changes nothing, and elsewhere it makes the
same.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from tests.property.budget import examples, seed

pytestmark = pytest.mark.django_db
DATABASES = ("shop", "crm", "a b")
NAMES = ("orders", "notes", "t.dot", "ünï😀", "quote'\"\\", "${HOME}", "x y")
TARGETS = (
    ("lake", "orders"),
    ("lake", "o.k"),
    ("a.b", "c"),
    ("a b", "${X}"),
    ("ünï", "😀"),
    ("crm", "notes"),
    ("x", "1"),
)


def _make(rng: random.Random) -> None:
    """Replicators of one connection, with all that people do to them before the first merge."""
    from webapp.connections.services import create_connection
    from webapp.replicators.selection.entries import SelectionEntry
    from webapp.replicators.services import create_replicator

    connection = create_connection(name="c", kind="mysql", config={"host": "h", "user": "u", "password": "pw"})
    for number in range(rng.randint(1, 4)):
        entries = {}
        for database in rng.sample(DATABASES, rng.randint(1, 2)):
            if rng.random() < 0.5:
                entries[database, ""] = SelectionEntry(database, mode=rng.choice(("", "history")))
            for name in rng.sample(NAMES, rng.randint(1, 4)):
                entries[database, name] = SelectionEntry(database, name, mode=rng.choice(("", "", "changelog")))
        create_replicator(
            name=f"r{number}", connection=connection, selection=list(entries.values()),
            target={"namespace_prefix": f"{number}_"}, options={"mode": rng.choice(("mirror", "soft_delete"))},
        )  # fmt: skip


def _live(rng: random.Random) -> None:
    """Tables are found, and copies get names; some are merged, which makes these theirs."""
    from webapp.monitoring.models import TableObjective
    from webapp.replicators.models import Replicator, ReplicatorTable
    from webapp.replicators.selection.entries import ensure_table
    from webapp.replicators.services import rename_target

    for replicator in Replicator.objects.all():
        for line in replicator.selection.filter(table=""):
            for name in rng.sample(NAMES, 2):
                ensure_table(replicator, TableId(line.database, name))
    for table in ReplicatorTable.objects.all():
        if rng.random() < 0.4:
            namespace, name = rng.choice(TARGETS)
            try:
                rename_target(table=table, namespace=namespace, name=name)
            except ConfigurationError as error:
                assert "is the target table of" in error.message  # noqa: PT017 - or it is renamed
        if table.own_name and rng.random() < 0.5:
            table.target_namespace, table.target_name = table.own_namespace, table.own_name
            table.save()
        if rng.random() < 0.2:
            TableObjective.objects.create(table=table, percent=99.5, seconds=rng.choice((7, 41, 3570)))


def _tell(rng: random.Random) -> None:
    """Streams of them."""
    from webapp.replicators.models import Replicator
    from webapp.streams.services import create_stream, set_enabled

    for replicator in Replicator.objects.all():
        names = [table.table_id for table in replicator.tables.all()]
        for number in range(rng.randint(0, 2)):
            every, some = rng.random() < 0.5, rng.sample(names, rng.randint(1, len(names)))
            stream = create_stream(
                name=f"{replicator.name}-{number}", replicator=replicator, shards=rng.randint(1, 3),
                tables=None if every else some, exclude=rng.sample(names, 1) if every and rng.random() < 0.5 else (),
                retention_hours=rng.choice((1, 24, 7.25)),
            )  # fmt: skip
            set_enabled(stream=stream, enabled=rng.random() < 0.7)


def _facts_of_streams() -> list[Any]:
    from webapp.streams.models import Stream

    fields = ("replicator__name", "name", "shards", "every_table", "enabled", "retention_hours")
    named = ("named__included", "named__table__database", "named__table__name")
    return sorted(Stream.objects.values_list(*fields, *named), key=repr)


def _facts() -> list[Any]:
    from webapp.replicators.models import ReplicatorTable

    fields = ("replicator__name", "database", "name", "mode", "own_namespace", "own_name", "objective__seconds")
    return sorted(ReplicatorTable.objects.values_list(*fields), key=repr)


def test_an_export_changes_nothing_here_and_makes_the_same_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import transaction

    from replicator.model.table_set import EXACT_NAMES
    from replicator.sources.mysql.source import MySqlSource
    from webapp.connections.models import Connection
    from webapp.console.definitions.apply import apply
    from webapp.console.definitions.export import export
    from webapp.replicators.models import Replicator, ReplicatorTable

    monkeypatch.setattr(MySqlSource, "names", lambda _: EXACT_NAMES)  # there is no server to be asked
    start, named = seed(), 0
    for number in range(examples(8, 500)):
        rng, case = random.Random(f"{start}/{number}"), f"seed {start}, case {number}"
        with transaction.atomic():
            _make(rng)
            _live(rng)
            _tell(rng)
            text, before, fed = export(), _facts(), _facts_of_streams()
            environ = {"C_PASSWORD": "pw"}
            named += ReplicatorTable.objects.exclude(own_name="").count()
            assert apply(text, environ) == [], f"{case}\n{text}"
            assert (_facts(), _facts_of_streams()) == (before, fed), case
            Replicator.objects.all().delete()
            Connection.objects.all().delete()
            assert apply(text, environ), case
            assert _facts_of_streams() == fed, f"{case}\n{text}"
            assert set(_facts()) <= set(before), f"{case}\n{text}"
            assert {fact for fact in before if fact[-1] or fact[-2]} <= set(_facts()), case
            assert apply(text, environ) == [], f"{case}\n{text}"
            transaction.set_rollback(True)
    assert named > 10
