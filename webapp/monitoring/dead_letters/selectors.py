"""Reading dead-letter rows: filtered, with the first of their bytes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from django.db.models import BinaryField, Exists, OuterRef, QuerySet
from django.db.models.functions import Length, Substr

from webapp.monitoring.dead_letters.services import REPLAYED
from webapp.monitoring.models import DeadLetterRow
from webapp.replicators.models import Replicator, ReplicatorTable, Scope, SnapshotRun
from webapp.replicators.services.tables import OPEN_RUN

if TYPE_CHECKING:
    from django_stubs_ext import WithAnnotations

    class Shown(TypedDict):
        head: bytes | memoryview
        kept: int
        replaying: bool

    ShownRow = WithAnnotations[DeadLetterRow, Shown]

STATES: Mapping[str, str] = {"open": "Waiting", "over": "Decided"}
SHOWN_BYTES = 512
WIDTH = 16  # bytes of a line
DIGITS = 15


@dataclass(frozen=True)
class DeadLetterFilters:
    """What the reader wants to see.  `table` is an id as text."""

    table: str = ""
    state: str = "open"

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> DeadLetterFilters:
        """Of a query string; what is not known filters nothing."""
        table, state = str(query.get("table") or ""), str(query.get("state", "open"))
        number = table.isascii() and table.isdigit() and len(table) <= DIGITS
        return cls(table if number else "", state if state in STATES else "")


def dead_letter_rows(replicator: Replicator, filters: DeadLetterFilters) -> QuerySet[ShownRow]:
    """Newest first, with tables and users; of the bytes `head`, the first SHOWN_BYTES, and how many are `kept`;
    `replaying`: rows are read by their keys.
    """
    found = DeadLetterRow.objects.filter(replicator=replicator)
    if filters.table:
        found = found.filter(table_id=int(filters.table))
    if filters.state:
        found = found.filter(resolved_at__isnull=filters.state == "open")
    head = Substr("data", 1, SHOWN_BYTES, output_field=BinaryField())
    replays = SnapshotRun.objects.filter(table=OuterRef("table"), scope=Scope.KEYS, reason=REPLAYED, state__in=OPEN_RUN)
    shown = found.annotate(head=head, kept=Length("data"), replaying=Exists(replays))
    return shown.select_related("table", "resolved_by").defer("data")


def tables_with_dead_letters(replicator: Replicator) -> QuerySet[ReplicatorTable]:
    """Those that have, or had, any; by name."""
    met = DeadLetterRow.objects.filter(replicator=replicator).order_by().values("table").distinct()
    return ReplicatorTable.objects.filter(pk__in=met)


def dump(data: bytes) -> str:
    """Bytes as people read them: the place, hexadecimal, and what of it is ASCII."""
    lines = []
    for start in range(0, len(data), WIDTH):
        part = data[start : start + WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)  # noqa: PLR2004 - what ASCII shows
        lines.append(f"{start:04x}  {part.hex(' '):<{3 * WIDTH}} {text}")
    return "\n".join(lines)
