"""Tables in Spanner's emulator, and a reader that is not the target: the vendor's client for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from replicator.staging.storage import Storage
from replicator.targets.base import Target, TargetTable
from replicator.targets.spanner.config import destination
from replicator.targets.spanner.kind import CAPABILITIES, IDENTIFIERS, SPANNER
from replicator.targets.spanner.names import column_name
from replicator.targets.spanner.target import open_target
from replicator.targets.spanner.values import Budget
from testing.servers.spanner import EmbeddedSpanner
from tests.integration.warehouse.copies import PostgresCopies

SEQUENCE = column_name("_sequence_num")


class SpannerCopies(PostgresCopies):
    """See `PostgresCopies`.  mutations: that a commit takes."""

    kind = SPANNER

    def __init__(self, spanner: EmbeddedSpanner, folder: Path, namespace: str, mutations: int = 0) -> None:
        self.spanner, self.namespace, self._mutations = spanner, namespace, mutations
        self.storage = Storage(f"file://{folder}/staging")
        self.settings = dict(spanner.settings)
        self._opened: list[Target] = []
        self.target = self.another_worker()

    def another_worker(self, replicator: str = "r1") -> Target:
        budget = Budget(self._mutations) if self._mutations else Budget()
        made = open_target(destination(self.settings), CAPABILITIES, self.storage, replicator, budget)
        self._opened.append(made)
        return made

    def table(self, schema: Any, name: str = "", **how: Any) -> TargetTable:
        return super().table(schema, IDENTIFIERS.legal(name) if name else "", **how)

    def query(self, sql: str, *values: Any) -> list[Any]:
        assert not values
        return self.spanner.query(sql)

    def place(self, table: TargetTable) -> str:
        return f"`{table.namespace}`.`{table.name}`"

    def columns(self, table: TargetTable) -> dict[str, str]:
        found = self.query(
            "SELECT column_name, spanner_type FROM information_schema.columns WHERE table_schema ="
            f" '{table.namespace}' AND table_name = '{table.name}' ORDER BY ordinal_position"
        )
        return dict(found)

    def tables(self) -> set[str]:
        """Of the namespace."""
        found = self.query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{self.namespace}'")
        return {name for (name,) in found}

    def rows(self, table: TargetTable, *, sequence: bool = False) -> list[Any]:
        """Times without a zone as such, as the position says."""
        ((said,),) = self.query(
            f"SELECT columns FROM `{table.namespace}`.tidemark_positions WHERE table_name = '{table.name}'"
        )
        kinds = {column_name(name): kind for name, kind in json.loads(said).items()}
        names = [name for name in self.columns(table) if sequence or name != SEQUENCE]
        listed = ", ".join(f"`{name}`" for name in names)
        forms = [FORMS.get(kinds[name].partition("(")[0], _same) for name in names]
        return [
            tuple(None if value is None else form(value) for value, form in zip(row, forms, strict=True))
            for row in self.query(f"SELECT {listed} FROM {self.place(table)} AS t_")
        ]


def _same(value: Any) -> Any:
    return value


FORMS: Mapping[str, Callable[[Any], Any]] = {
    "timestamp_ntz": lambda value: value.replace(tzinfo=None),
    "decimal": Decimal,  # wide ones are texts
}
