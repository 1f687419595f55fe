"""A metadata database as it was before lags were counted by event, alerts, objectives and lineage: the last one without
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

# The newest migration of each app then; apps that are not named did not exist.
THEN = {
    "accounts": "0001_initial",
    "connections": "0001_initial",
    "monitoring": "0002_initial",
    "replicators": "0005_bare_segments",
    "worker": "0002_iceberg_catalog",
}


def _own() -> list[str]:
    return [config.label for config in apps.get_app_configs() if config.name.startswith("webapp.")]


def _executor() -> MigrationExecutor:
    return MigrationExecutor(connection)


@contextmanager
def older_database() -> Iterator[Any]:
    """Migrate back to `THEN`, yield the models of that state, and always migrate forward again at the end."""
    executor = _executor()
    there = {label for label, _ in executor.loader.graph.nodes}
    targets = [(label, THEN.get(label)) for label in _own() if label in there]
    state = executor.loader.project_state([(label, name) for label, name in targets if name])
    try:
        executor.migrate(targets)
        yield state.apps
    finally:
        executor = _executor()
        executor.migrate(executor.loader.graph.leaf_nodes())
