"""Java of our own, compiled by the compiler that Spark has for its generated code.

A class is compiled once: py4j remembers methods by their class's name, and calls those of one class of a name on the
object of another.
"""

from __future__ import annotations

from typing import Any

from replicator.targets.iceberg.jvm.engine import Engine


def class_loader(engine: Engine, name: str, source: str) -> Any:
    """That of the class `name`, which `source` defines; compiled once for each JVM."""

    def compiled() -> Any:
        compiler = engine.java("org.codehaus.janino.SimpleCompiler")()
        compiler.cook(source)
        return compiler.getClassLoader()

    return engine.once(name, compiled)


def instance(engine: Engine, name: str, source: str) -> Any:
    """The one object of such a class."""
    return engine.once(f"{name}()", lambda: class_loader(engine, name, source).loadClass(name).newInstance())
