"""A column type as the generator sees it; each dialect has its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from testing.workload.rng_literals import Pen


@dataclass(frozen=True, slots=True)
class ValueKind(ABC):
    """`size`: characters, bytes, bits, digits, or fractional digits of a second; `zero`: invalid dates may occur."""

    name: str
    size: int | None = None
    scale: int | None = None
    collation: str = ""
    labels: tuple[str, ...] = ()
    zero: bool = False

    @property
    @abstractmethod
    def label(self) -> str:
        """For counting which types occurred."""

    @property
    @abstractmethod
    def has_default(self) -> bool:
        """A literal DEFAULT is possible."""

    @property
    @abstractmethod
    def is_simple(self) -> bool:
        """Its values can be compared and ordered."""

    @property
    @abstractmethod
    def has_cases(self) -> bool:
        """Its literals may stand in a CASE."""

    @abstractmethod
    def declared(self) -> str:
        """As it stands in CREATE TABLE."""

    @abstractmethod
    def value(self, pen: Pen) -> str:
        """A literal of the type, never NULL."""

    def repeated(self, pen: Pen) -> str:
        """One that thousands of rows may hold: not too long."""
        return self.value(pen)
