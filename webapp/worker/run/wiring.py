"""Opens what the engine's loops need from a replicator's rows: source, staging, target, reporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from replicator.selection.source import SelectedSource
from replicator.sources.base import ReadOptions, Source
from replicator.sources.registry import source_kind
from replicator.targets import registry
from replicator.targets.base import Target
from replicator.targets.kind import Opening
from webapp.connections.selectors import full_config
from webapp.destinations.lakes import built_in_lake, bundles
from webapp.monitoring.models import Stage
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import table_set
from webapp.replicators.staging import storage
from webapp.replicators.targets import full_target
from webapp.worker.run.reporting import OrmReporter
from webapp.worker.run.spark import spark


def label(replicator: Replicator) -> str:
    """What sources and staging know the replicator by: safe in paths, unique over installations, stable."""
    return f"r{replicator.pk}-{replicator.uid}"


@contextmanager
def opened_source(replicator: Replicator) -> Iterator[Source]:
    """Closed at the end of the block.  It knows the columns left out, the masks, and how values are read."""
    kind = source_kind(replicator.connection.kind)
    source = SelectedSource(kind.open(full_config(replicator.connection)), kind.whole_rows)
    source.tables, source.options = table_set(replicator), read_options(replicator)
    try:
        yield source
    finally:
        source.close()


def read_options(replicator: Replicator) -> ReadOptions:
    """The same for log and snapshot."""
    options, kind = replicator.parsed_options, source_kind(replicator.connection.kind)
    values = {one.name: str(getattr(options, one.name)) for one in kind.value_options}
    return ReadOptions(values=values, keep_undecodable=options.on_decode_error == "dead_letter")


def reporter(replicator: Replicator, stage: Stage) -> OrmReporter:
    """Its lines hold no secrets."""
    return OrmReporter(replicator.pk, replicator.name, stage)


def open_target(replicator: Replicator) -> Target:
    """Its Spark is the process's, and started by who needs it."""
    opening = Opening(
        spark=lambda lake: spark(lake, bundles),
        lake=built_in_lake(),
        storage=storage(),
        replicator=label(replicator),
        config=full_target(replicator),
        source=source_kind(replicator.connection.kind).connector,
        retention=replicator.parsed_options.retention(
            settings.TIDEMARK_RETENTION_STEPS, settings.TIDEMARK_DELETION_GRACE_HOURS
        ),
    )
    return registry.open_target(replicator.destination.kind, opening)
