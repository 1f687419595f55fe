"""What rows changes make of a table: a model that shares nothing with the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from replicator.model.schema import TableSchema
from tests.staged import Change, Row


class Model:
    """What the table must hold: rows, with or without key."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.rows: Counter[Row] = Counter()

    def follow(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.before is not None:
                self.rows -= Counter([change.before])
            if change.row is not None and change.op != "DELETE":
                self.rows += Counter([change.row])
