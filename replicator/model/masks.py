"""Masks: what stands in the target in place of a column's values.  Null stays null under each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.literals import WRITABLE, Value, value_of
from replicator.model.types import STRING, DataType, Kind


class MaskKind(StrEnum):
    """null: nothing.  fixed: one value for all.  partial: the first and last characters.  hash: SHA-256 over salt and
    text.
    """

    NULL = "null"
    FIXED = "fixed"
    PARTIAL = "partial"
    HASH = "hash"


MAX_SHOWN = 1000
# Kinds whose every value has one text: digits, `1`/`0`, ISO dates and times with six digits (in UTC), the text itself.
TEXTUAL = WRITABLE
FIXABLE = frozenset({Kind.STRING, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.BOOLEAN})
_FIELDS: Mapping[MaskKind, frozenset[str]] = {
    MaskKind.NULL: frozenset(),
    MaskKind.FIXED: frozenset({"value"}),
    MaskKind.PARTIAL: frozenset({"first", "last"}),
    MaskKind.HASH: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Mask:
    """`value` is a fixed mask's; `first` and `last`: how many characters a partial one keeps."""

    kind: MaskKind
    value: str = ""
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        """For people."""
        if self.kind is MaskKind.FIXED:
            return f"fixed as {self.value!r}"
        if self.kind is MaskKind.PARTIAL:
            return f"partial: first {self.first}, last {self.last}"
        return "null" if self.kind is MaskKind.NULL else "hashed with salt"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": self.kind.value} | {name: getattr(self, name) for name in sorted(_FIELDS[self.kind])}

    @classmethod
    def from_dict(cls, data: Any) -> Mask:
        """Inverse of `to_dict`; a kind's bare name will do.  ConfigurationError that says what is wrong."""
        given = {"kind": "null" if data is None else data} if data is None or isinstance(data, str) else data
        if not isinstance(given, Mapping) or given.get("kind") not in set(MaskKind):
            message = f"A mask is one of {', '.join(MaskKind)}, not {data!r}."
            raise ConfigurationError(message)
        kind = MaskKind(given["kind"])
        if unknown := sorted(map(str, set(given) - _FIELDS[kind] - {"kind"})):
            message = f"A mask of the kind {kind} has no setting {unknown[0]!r}."
            raise ConfigurationError(message)
        mask = cls(kind, _text(given.get("value", "")), _count(given.get("first", 0)), _count(given.get("last", 0)))
        if kind is MaskKind.FIXED and "value" not in given:
            raise ConfigurationError("A fixed mask needs a value.")
        return mask

    def refusal(self, name: str, column: DataType, *, key: bool) -> str:
        """Why the column `name` cannot be masked so, as a sentence; empty where it can."""
        if key and self.kind is not MaskKind.HASH:
            return f"The key column {name} can only be masked by hash, because its values must stay distinct."
        if self.kind is MaskKind.HASH and column.kind not in TEXTUAL | {Kind.BINARY}:
            return f"{name} ({column}) cannot be hashed: equal values can have different representations."
        if self.kind is MaskKind.PARTIAL and column.kind not in TEXTUAL:
            return f"{name} ({column}) is not a text column, so a partial mask is not possible."
        if self.kind is MaskKind.FIXED:
            return self._misfit(name, column)
        return ""

    def _misfit(self, name: str, column: DataType) -> str:
        if column.kind not in FIXABLE:
            return f"{name} ({column}) cannot have a fixed value. Mask it with null, or exclude it."
        try:
            self.fixed(column)
        except ValueError:
            return f"{self.value!r} is not a valid value of {name} ({column})."
        return ""

    def fixed(self, column: DataType) -> Value:
        """The fixed value in Python.  ValueError where it does not fit."""
        return value_of(self.value, column)

    def type(self, column: DataType) -> DataType:
        """Of the column in the target."""
        return STRING if self.kind in {MaskKind.PARTIAL, MaskKind.HASH} else column


def parse_masks(data: Any) -> dict[str, Mask]:
    """By column.  ConfigurationError that names the column."""
    if not isinstance(data, Mapping):
        message = f"Masks must be a mapping of columns, not {data!r}."
        raise ConfigurationError(message)
    found = {}
    for name, given in data.items():
        try:
            found[str(name)] = Mask.from_dict(given)
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error.message}") from None
    return found


@dataclass(frozen=True, slots=True)
class Masked:
    """What a masked column is at the source: how it is masked, its own type, and whether it may be null there."""

    mask: Mask
    type: DataType
    nullable: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON form, part of a stored column's."""
        return {**self.mask.to_dict(), "type": str(self.type), "nullable": self.nullable}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Masked:
        """Inverse of `to_dict`; LookupError, ValueError, ConfigurationError for all else."""
        mask = {name: value for name, value in data.items() if name not in {"type", "nullable"}}
        return cls(Mask.from_dict(mask), DataType.parse(data["type"]), bool(data["nullable"]))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        message = f"A mask's value must be a string or a number, not {value!r}."
        raise ConfigurationError(message)
    return str(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SHOWN:
        message = f"A partial mask shows 0 to {MAX_SHOWN} characters, not {value!r}."
        raise ConfigurationError(message)
    return value
