"""Histories for servers that compare names without case: each name in another case each time."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from testing.workload.rng_literals import Pen
from testing.workload.workload import History, Step

_NAME = re.compile(r"`((?:[^`]|``)+)`")


def respelled(history: History, names: Collection[str]) -> History:
    """The same with the tables, columns and the like of these names (in lower case) in any case."""
    pen = Pen(history.seed)

    def name(found: re.Match[str]) -> str:
        known = found[1].replace("``", "`").lower() in names
        return f"`{_in_some_case(found[1], pen)}`" if known else found[0]

    def step(one: Step) -> Step:
        return replace(one, statements=tuple(_NAME.sub(name, text) for text in one.statements))

    setup = tuple(_NAME.sub(name, text) for text in history.setup)
    phases = tuple(replace(phase, steps=tuple(map(step, phase.steps))) for phase in history.phases)
    return replace(history, setup=setup, phases=phases, refused=tuple(one.lower() for one in history.refused))


def _in_some_case(name: str, pen: Pen) -> str:
    how = pen.choice((str, str.upper, str.lower, str.swapcase))
    return "".join(other if (other := how(letter)).lower() == letter.lower() else letter for letter in name)
