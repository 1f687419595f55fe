"""Types as the catalog's rows say them: domains resolved, arrays with their element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replicator.sources.postgres.catalog.attributes import PgType

Row = Mapping[str, Any]


class Types:
    """All rows of one `describe_sql.TYPES`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {int(row["oid"]): row for row in rows}
        self._made: dict[int, PgType] = {}

    def __contains__(self, oid: object) -> bool:
        """Does the type exist?"""
        return oid in self._rows

    def get(self, oid: int) -> PgType:
        """The type; one that the server does not have is a pseudo-type, which no column of ours can have."""
        if oid not in self._rows:
            return PgType(oid, f"with the oid {oid}", "", "p")
        if oid not in self._made:
            self._made[oid] = self._make(self._rows[oid])
        return self._made[oid]

    def _make(self, row: Row) -> PgType:
        element = self.get(row["element"]) if row["element"] else None
        base, typmod = None, -1
        if row["kind"] == "d":
            base, typmod = self.get(row["base"]), row["typmod"]
            if base.base is not None:  # a domain over a domain: the innermost one's modifier counts
                base, typmod = base.base, base.base_typmod
        parts = tuple(self.get(oid) for oid in row.get("parts", ()))  # an earlier version's trigger tells none
        return PgType(row["oid"], row["name"], row["schema"], row["kind"], base, typmod, element, parts)
