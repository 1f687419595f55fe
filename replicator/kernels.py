"""Kernels: functions that are compiled to machine code, in files named `*_kernel.py`.

`python -m replicator.kernels` compiles all of them into the cache (`make kernels`; the Docker image is built with it).
A process that imports one later takes it from there, or compiles it there and then: never when it is called, for its
types are given. The cache is in NUMBA_CACHE_DIR, or else beside the source, or where that cannot be written in the
user's cache folder. Numba notices that a kernel's own file has changed, and not one with a helper of it: so each file
of kernels stands alone.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher

_SUFFIX = "_kernel"


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compiles for these types only, when the module is imported.

    It runs without Python's lock, and checks no bounds.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(signature, cache=True, nogil=True)(function)
        except (OSError, RuntimeError) as error:
            if not isinstance(error, OSError) and "cannot cache function" not in str(error):
                raise
        return numba.njit(signature, nogil=True)(function)  # no cache folder is writable: every process compiles it

    return compiled


def part(function: Callable[..., Any]) -> Any:
    """A piece of kernels of the same file, compiled into them: nothing is done for it where they come from the
    cache.
    """
    return numba.njit(inline="always")(function)


def load() -> list[Dispatcher]:
    """All kernels there are; those that are not in the cache are compiled into it."""
    package = importlib.import_module("replicator")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "replicator.")]
    modules = [importlib.import_module(name) for name in sorted(names) if name.endswith(_SUFFIX)]
    found = (value for module in modules for value in vars(module).values())
    return [value for value in found if isinstance(value, Dispatcher) and value.targetoptions.get("nogil")]


def cached(kernels: Sequence[Dispatcher]) -> int:
    """How many of them came from the cache."""
    return sum(1 for one in kernels if one.stats.cache_hits)


def main() -> None:
    """See above."""
    begun = time.monotonic()
    kernels = load()
    seconds = time.monotonic() - begun
    print(f"{len(kernels)} kernels are ready after {seconds:.1f} s, {cached(kernels)} of them from the cache")  # noqa: T201
    if not all(one.stats.cache_path for one in kernels):
        sys.exit("No writable cache folder. Set NUMBA_CACHE_DIR to a writable folder.")


if __name__ == "__main__":
    main()
