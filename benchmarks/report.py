"""Lines of figures, on the terminal and in the documentation."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

HEAD = "# Benchmarks\n\nEach figure stands beside a reference measured in the same run on the same machine.\n"


@dataclass(frozen=True)
class Row:
    """One figure.  `reference` None: there is nothing to compare with; `met` is what the goal says."""

    name: str
    ours: float
    reference: float | None
    goal: str
    met: bool
    unit: str = ""

    @classmethod
    def at_least(cls, name: str, ours: float, reference: float, ratio: float, unit: str) -> Self:
        """Met if ours is at least `ratio` times the reference."""
        return cls(name, ours, reference, f"ratio ≥ {ratio:g}", ours >= ratio * reference, unit)

    @classmethod
    def at_most(cls, name: str, ours: float, reference: float, ratio: float, unit: str) -> Self:
        """Met if ours is at most `ratio` times the reference."""
        return cls(name, ours, reference, f"ratio ≤ {ratio:.3g}", ours <= ratio * reference, unit)

    def cells(self) -> list[str]:
        """name, ours, reference, ratio, goal, met or missed."""
        outcome = "–" if self.goal == "none" else "met" if self.met else "missed"
        ratio = "" if not self.reference else f"{self.ours / self.reference:.3f}"
        reference = "" if self.reference is None else _number(self.reference, self.unit)
        return [
            self.name,
            _number(self.ours, self.unit),
            reference,
            ratio,
            self.goal,
            outcome,
        ]

    def line(self) -> str:
        """For the terminal."""
        return " | ".join(self.cells())


def _number(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}".strip() if value >= 100 or value == int(value) else f"{value:.2f} {unit}".strip()


def write_section(path: Path, title: str, command: str, rows: list[Row]) -> None:
    """Put the section in place of the one with the same title and command, or at the end."""
    mark = f"<!-- {title}: {command} -->"
    lines = [
        mark, f"## {title.capitalize()}", "", f"`{command}`, {datetime.now(UTC):%Y-%m-%d}, {_machine()}.", "",
        "| name | ours | reference | ratio | goal | |", "|---|---:|---:|---:|---|---|",
        *(f"| {' | '.join(row.cells())} |" for row in rows), "<!-- end -->",
    ]  # fmt: skip
    section = "\n".join(lines) + "\n"
    text = path.read_text() if path.exists() else HEAD
    old = re.compile(re.escape(mark) + r".*?<!-- end -->\n", re.DOTALL)
    text = old.sub(lambda _: section, text) if old.search(text) else f"{text.rstrip()}\n\n{section}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
