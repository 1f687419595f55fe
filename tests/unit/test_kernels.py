"""Kernels come from the cache, are compiled for nothing but their types, and work where nothing can be kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import json, sys
from replicator import kernels
found = kernels.load()
from numba.core.dispatcher import Dispatcher
parts = [v for name in list(sys.modules) if name.endswith("_kernel") for v in vars(sys.modules[name]).values()
         if isinstance(v, Dispatcher) and v not in found]
from replicator.sources.mysql.rows import value_kernel
import numpy as np
data, out, valid = np.arange(8, dtype=np.uint8), np.empty(1, np.int64), np.zeros(1, np.uint8)
value_kernel.integers(data, np.array([0]), np.array([4]), np.array([0]), 4, True, out, valid)
print(json.dumps({
    "kernels": len(found),
    "hits": sum(sum(k.stats.cache_hits.values()) for k in found),
    "misses": sum(sum(k.stats.cache_misses.values()) for k in found),
    "open": [k.py_func.__name__ for k in found if k._can_compile],
    "parts": [p.py_func.__name__ for p in parts if p.signatures],
    "places": sorted({str(k.stats.cache_path) for k in found}),
    "value": int(out[0]),
}))
"""


def look(environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_process_with_a_warm_cache_compiles_nothing() -> None:
    """Not even when a kernel is called.  The first one finds what `make kernels` has compiled, or compiles it."""
    look({})
    seen = look({})
    assert seen["kernels"] >= 17
    assert (seen["hits"], seen["misses"], seen["parts"], seen["open"]) == (seen["kernels"], 0, [], [])


@pytest.mark.long
def test_the_cache_is_where_it_is_wanted(tmp_path: Path) -> None:
    place = {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "replicator.kernels"], cwd=ROOT, env={**os.environ, **place}, check=True)
    seen = look(place)
    assert (seen["hits"], seen["misses"]) == (seen["kernels"], 0)
    assert all(path.startswith(str(tmp_path)) for path in seen["places"])


def test_where_nothing_can_be_kept_kernels_work_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numba
    from numba.core import caching

    from replicator.kernels import kernel

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    twice = kernel(numba.int64(numba.int64))(lambda number: 2 * number)
    assert twice(21) == 42
    assert twice.stats.cache_path is None

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.undo()
    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_data", full)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kernel(numba.int64(numba.int64))(lambda number: 3 * number)(14) == 42
