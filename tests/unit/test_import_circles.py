"""No module imports itself through other modules: at the top, in a function or for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
PACKAGES = ("replicator", "webapp", "testing", "benchmarks", "tests")


def modules() -> dict[str, Path]:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Each module that is named anywhere, and what is taken of it."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module
            yield from ((node.module, one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)


def circle(known: Mapping[str, Path]) -> list[str]:
    """Return modules of which each imports the next, the first one again at the end; empty where there is no circle."""
    graph = {}
    for name, path in known.items():
        named = ((module, f"{module}.{one}") for module, one in imported(path))
        graph[name] = {one if one in known else module for module, one in named} & known.keys()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))  # graphlib lists what is needed before what needs it
    return []


def test_there_is_no_import_circle() -> None:
    known = modules()
    assert {"replicator.engine.snapshot", "webapp.settings", "tests.conftest"} <= known.keys()
    found = circle(known)
    assert not found, f"an import circle: {' → '.join(found)}"


@pytest.mark.parametrize(
    "text",
    ["import b\n", "from b import X\n", "def f():\n    import b\n", "if TYPE_CHECKING:\n    from b import X\n"],
)
def test_every_way_to_import_counts(tmp_path: Path, text: str) -> None:
    a, b, c = (tmp_path / f"{name}.py" for name in "abc")
    a.write_text(text)
    b.write_text("import c\n")
    c.write_text("")
    known = {"a": a, "b": b, "c": c}
    assert circle(known) == []
    c.write_text("from a import Y\n")
    found = circle(known)
    assert found[0] == found[-1]
    assert " ".join(found) in {"a b c a", "b c a b", "c a b c"}
