"""Replicators that write to a company's own catalog: every mode, definitions that change, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from replicator.sources.base import CheckStatus
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import OAuth, RestFront
from tests.integration.pipeline.lab import Lab
from webapp.database import clock
from webapp.destinations.models import Destination
from webapp.destinations.services import DESTINATIONS
from webapp.replicators import services
from webapp.replicators.selection.entries import SelectionEntry
from webapp.replicators.target_tables import past_of
from webapp.worker.upkeep import garbage_collection

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1500),
]
MODES = {"m": "mirror", "s": "soft_delete", "h": "history", "c": "changelog"}
SECRET = "only-the-catalog-knows-it"


@pytest.fixture
def company(rest_catalog: EmbeddedRestCatalog, transactional_db: Any) -> Iterator[tuple[Destination, RestFront]]:
    """A REST catalog that asks who comes."""
    front = RestFront(rest_catalog.uri, oauth=OAuth({"tidemark": SECRET}))
    front.start()
    config = {"catalog": "rest", "uri": front.uri, "client_id": "tidemark", "client_secret": SECRET, "store": "file"}
    made = DESTINATIONS.create(name="company", kind="iceberg", config=config)
    found = DESTINATIONS.test(kind="iceberg", config={}, endpoint=made)
    assert {line.status for line in found} == {CheckStatus.OK}, found
    yield made, front
    front.stop()


@pytest.mark.long  # each mode on Tidemark's own catalog is test_modes; the catalog, the contract of targets
def test_every_mode_in_a_rest_catalog(
    lab: Lab, company: tuple[Destination, RestFront], rest_catalog: EmbeddedRestCatalog
) -> None:
    destination, front = company
    for name in MODES:
        lab.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20), n INT)",
            f"INSERT INTO {name} SELECT seq, CONCAT('v', seq), seq FROM seq_1_to_500",
        )
    services.create_replicator(
        name=lab.name,
        connection=lab.connection(),
        destination=destination,
        selection=[SelectionEntry(lab.database, name, mode=mode) for name, mode in MODES.items()],
        user=None,
        start=True,
    )
    lab.run(timeout=400)
    lab.assert_equal(4)
    for name in MODES:
        lab.execute(
            f"UPDATE {name} SET v = 'new' WHERE id % 7 = 0",
            f"DELETE FROM {name} WHERE id % 11 = 0",
            f"UPDATE {name} SET id = id + 1000 WHERE id = 5",
            f"ALTER TABLE {name} ADD COLUMN more BIGINT",
            f"INSERT INTO {name} VALUES (2000, 'later', 1, 2)",
        )
    front.expire()
    front.lose_answer()
    lab.run(timeout=400)
    lab.assert_equal(4)
    past = past_of(lab.table("m"))
    assert past is not None
    assert past.snapshots > 1
    lab.execute("DROP TABLE c")
    lab.run(timeout=400)
    assert {name: state for name, state in lab.states().items() if state != "streaming"} == {"c": "dropped"}
    lab.assert_equal(3)
    reader = RestCatalog("reader", uri=rest_catalog.uri)
    assert {name for _, name in reader.list_tables(lab.database)} == {"m", "s", "h"}
    assert garbage_collection.dropped_tables(clock()) == 0
