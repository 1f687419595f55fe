"""The columns of a table with what is to become of each: a line of a form."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from django.http import QueryDict

from replicator.errors import ConfigurationError
from replicator.model.masks import FIXABLE, Mask, MaskKind
from replicator.model.row_filter import RowFilter, parse_filter
from replicator.model.schema import Column, TableSchema
from replicator.sources.kind import SourceKind

WORDS = {
    MaskKind.HASH: "Hash with salt",
    MaskKind.PARTIAL: "Show a part",
    MaskKind.FIXED: "One fixed value",
    MaskKind.NULL: "Null",
}


@dataclass(frozen=True)
class ColumnLine:
    """`kept`: it is taken at all.  kind, value, first and last are as typed; `error` says why they make no mask."""

    column: Column
    place: int
    key: bool
    kept: bool
    kind: str = ""
    value: str = ""
    first: str = "0"
    last: str = "0"
    error: str = ""
    mask: Mask | None = None

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Masks that the column can have, in words."""
        return [(kind.value, word) for kind, word in WORDS.items() if self._possible(kind)]

    def _possible(self, kind: MaskKind) -> bool:
        if kind is MaskKind.FIXED:
            return not self.key and self.column.type.kind in FIXABLE
        return not Mask(kind).refusal(self.name, self.column.type, key=self.key)


def column_lines(
    schema: TableSchema, left_out: Collection[str], masks: Mapping[str, Mask], post: QueryDict | None = None
) -> Sequence[ColumnLine]:
    """As stored, or as `post` has them; a mask of a column that is left out is none."""
    return [
        _line(column, place, column.name in schema.key, column.name not in left_out, masks.get(column.name), post)
        for place, column in enumerate(schema.columns)
    ]


def filter_of(
    text: str, schema: TableSchema, left_out: Collection[str], kind: SourceKind
) -> tuple[RowFilter | None, str]:
    """The row filter as typed; None, and why, where the table cannot have it."""
    try:
        found = parse_filter(text)
    except ConfigurationError as error:
        return None, error.message
    why = found.refusal(schema)
    if schema.partial and why:
        why += f" {kind.whole_rows}"
    if out := [one.column for one in found.conditions if one.column in left_out]:
        why = f"{out[0]} is excluded, so rows cannot be filtered by it."
    return (None, why) if why else (found, "")


def _line(
    column: Column,
    place: int,
    key: bool,  # noqa: FBT001 - two marks of one column
    kept: bool,  # noqa: FBT001
    mask: Mask | None,
    post: QueryDict | None,
) -> ColumnLine:
    if post is None:
        if mask is None:
            return ColumnLine(column, place, key, kept)
        typed = (mask.kind.value, mask.value, str(mask.first), str(mask.last))
        return ColumnLine(column, place, key, kept, *typed, mask=mask if kept else None)
    kind, value = post.get(f"mask-{place}", ""), post.get(f"value-{place}", "")
    first, last = post.get(f"first-{place}", "0"), post.get(f"last-{place}", "0")
    if not kept or kind not in set(MaskKind):
        return ColumnLine(column, place, key, kept)
    made, error = _made(column, MaskKind(kind), value, (first, last), key=key)
    return ColumnLine(column, place, key, kept, kind, value, first, last, error, made)


def _made(column: Column, kind: MaskKind, value: str, shown: tuple[str, str], *, key: bool) -> tuple[Mask | None, str]:
    given: dict[str, object] = {"kind": kind.value}
    if kind is MaskKind.FIXED:
        given["value"] = value
    if kind is MaskKind.PARTIAL:
        given |= {
            name: int(text) if text.isdecimal() else text for name, text in zip(("first", "last"), shown, strict=True)
        }
    try:
        mask = Mask.from_dict(given)
    except ConfigurationError as error:
        return None, error.message
    why = mask.refusal(column.name, column.type, key=key)
    return (None, why) if why else (mask, "")
