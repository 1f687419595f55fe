"""How much the fuzz tests do: little in `make test`, as much as TIDEMARK_FUZZ_EXAMPLES says in `make test-long`."""

from __future__ import annotations

import os
import random

_ASKED = os.environ.get("TIDEMARK_FUZZ_EXAMPLES", "")


def examples(usual: int, most: int = 10**9) -> int:
    """`usual`, unless the environment asks for a number (of the test's own unit: mutants, statements, rows), up to
    `most`.
    """
    return min(int(_ASKED), most) if _ASKED else usual


def seed() -> int:
    """The same in every usual run; a fresh one, to be printed by the test, in a long one."""
    return int(os.environ.get("TIDEMARK_FUZZ_SEED") or (_FRESH if _ASKED else 1))


_FRESH = random.SystemRandom().randrange(2**31)
