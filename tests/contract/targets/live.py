"""The contract of targets at a real account: `make test-live DESTINATION=snowflake`.

A destination's settings are environment variables, TIDEMARK_LIVE_ and a field's name: TIDEMARK_LIVE_ACCOUNT=MYORG-PROD.
Each test works in a new namespace, which is dropped after it.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo

from replicator.errors import ConfigurationError
from replicator.model.mode import CURRENT, DELETED, Mode
from replicator.model.schema import TableSchema
from replicator.staging.storage import Storage
from replicator.targets.base import Target, TargetTable
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.kind import Opening, TargetKind
from replicator.targets.registry import KINDS, target_kind
from replicator.verification import TablePair
from tests.contract import live
from tests.contract.targets.places import TargetPlace
from tests.staged import Row

DESTINATION = f"{live.PREFIX}DESTINATION"
PRESENT: Mapping[Mode, BooleanExpression] = {
    Mode.SOFT_DELETE: EqualTo(DELETED, False),
    Mode.HISTORY: EqualTo(CURRENT, True),
}


def settings_of(kind: TargetKind, environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says of a destination.  Raises ConfigurationError, which names the variables."""
    return live.settings_of(kind.title, kind.destination_form, kind.valid, environment)


class LivePlace(TargetPlace):
    """Drops what was made in it."""

    def close(self) -> None:
        super().close()
        dialect: Any = getattr(self.worker("cleaner"), "_dialect")  # noqa: B009 - a test may know it
        with closing(dialect.connect()) as session:
            dialect.drop_schema(session, self.namespace)


def live_place(folder: Path) -> LivePlace:
    """Read as verification does, which shares nothing with the target."""
    kind, lake = target_kind(os.environ[DESTINATION]), NO_LAKE
    settings, storage = settings_of(kind, os.environ), Storage(f"file://{folder}/staging")
    assert kind.verification is not None
    config = kind.verification(settings, lake)

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        opened = config.open(TablePair("", "", table.namespace, table.name))
        wanted = PRESENT.get(mode, AlwaysTrue())
        batches = opened.handle.read(schema.names, wanted)
        return Counter(tuple(row[name] for name in schema.names) for one in batches for row in one.to_pylist())

    def worker(replicator: str) -> Target:
        return kind.open(Opening(no_spark, lake, storage, replicator, settings, "mysql"))

    def no_spark(_: object) -> Any:
        raise AssertionError("no kind with an account needs Spark")

    namespace = f"tidemark_live_{uuid.uuid4().hex[:12]}"
    return LivePlace(kind, storage, worker, read, namespace)


def main(name: str) -> int:
    """Tests the connection, runs the contract, and records a run that passed."""
    try:
        kind = target_kind(name)
        settings = settings_of(kind, os.environ)
    except ConfigurationError as error:
        sys.stderr.write(f"{error.message} {error.remedy}\n")
        return 2
    if not live.passes(kind.check(settings) if kind.check else ()):
        return 1
    tests = Path(__file__).with_name("test_target.py")
    return live.play(kind.title, tests, {**os.environ, DESTINATION: name}, sys.argv[2:])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.stderr.write(f"Which destination?  One of {', '.join(sorted(KINDS))}.\n")
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
