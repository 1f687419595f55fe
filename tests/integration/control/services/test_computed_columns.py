"""Computed columns of a replicator: in the assessment, in the table set, and which tables a change reads again."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError
from replicator.model.masks import Mask, MaskKind
from tests.integration.control.conftest import ITEMS, ORDERS, TABLES, Captured
from webapp.connections.models import Connection
from webapp.replicators import services
from webapp.replicators.models import ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import assess
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.selectors import table_set
from webapp.replicators.targets import wanted_target

pytestmark = pytest.mark.django_db


def states(captured: Captured) -> dict[str, tuple[str, bool, bool]]:
    """State, whether capture follows it, and whether it is another generation."""
    rows = ReplicatorTable.objects.filter(replicator=captured.replicator)
    return {row.name: (row.state, row.tracked, row.load != "L") for row in rows}


def test_a_change_reads_the_tables_that_it_means(connection: Connection) -> None:
    lines = [SelectionEntry(t.database, t.name) for t in TABLES]
    captured = Captured(services.create_replicator(name="copy", connection=connection, selection=lines))
    captured.begin()
    rows = ReplicatorTable.objects.filter(replicator=captured.replicator)

    def change(text: str) -> dict[str, tuple[str, bool, bool]]:
        rows.update(state="streaming", load="L", load_complete=True, tracked=True)
        services.update_target(replicator=captured.replicator, target={"computed_columns": text})
        return states(captured)

    alone = ("streaming", True, False)
    assert change("shop.orders: tenant = 'eu'") == {"orders": ("reloading", False, False), "items": alone}
    assert set(table_set(captured.replicator).computed.of(ORDERS)) == {"tenant"}
    assert not table_set(captured.replicator).computed.of(ITEMS)
    assert change("shop.orders: tenant = 'us'") == {"orders": ("loading", False, True), "items": alone}
    assert change("shop.o*: tenant = 'us'") == {"orders": alone, "items": alone}
    assert change("shop.*: more = 1\nshop.o*: tenant = 'us'") == dict.fromkeys(
        ("orders", "items"), ("reloading", False, False)
    )
    with pytest.raises(ConfigurationError, match="is not of the form"):
        change("shop.*: more")


def test_the_assessment_shows_computed_columns_and_what_cannot_be(connection: Connection) -> None:
    lines = [SelectionEntry("shop", "items"), SelectionEntry("shop", "orders", masks={"id": Mask(MaskKind.HASH)})]

    def assessed(columns: str) -> dict[str, tuple[str, str]]:
        found = assess(
            connection=connection,
            selection=lines,
            options=ReplicatorOptions(),
            settings={"computed_columns": columns},
        )
        return {one.table.name: (one.support, " ".join(one.reasons)) for one in found}

    found = assess(
        connection=connection,
        selection=lines,
        options=ReplicatorOptions(),
        settings={"computed_columns": "shop.items: at = commit_time, id_text = cast(id as string)"},
    )
    assert [(c.name, c.source_type, c.target_type, c.support) for c in found[0].columns[-2:]] == [
        ("at", "commit_time", "timestamptz", "full"),
        ("id_text", "cast(id as string)", "string", "full"),
    ]
    assert assessed("shop.*: NAME = 1")["items"][0] == "none"
    support, why = assessed("shop.*: wide = cast(id as decimal(20, 0))")["orders"]
    assert support == "none"
    assert "cannot be a cast of id (string) to decimal(20,0)" in why
    assert assessed("shop.*: wide = cast(id as decimal(20, 0))")["items"][0] == "full"


def test_settings_are_checked_for_every_kind_of_target() -> None:
    with pytest.raises(ConfigurationError, match="computed_columns: 'x' is none of"):
        wanted_target({"kind": "kafka", "bootstrap_servers": "127.0.0.1:1", "computed_columns": "shop.*: a = x"})
