"""Java of our own, compiled by the compiler that Spark has for its generated code."""

from __future__ import annotations

from typing import Any

from replicator.targets.iceberg.jvm.jvm import Engine


def class_loader(engine: Engine, name: str, source: str) -> Any:
    """That of the class `name`, which `source` defines; compiled once for each JVM."""
    if name not in engine.classes:
        compiler = engine.java("org.codehaus.janino.SimpleCompiler")()
        compiler.cook(source)
        engine.classes[name] = compiler.getClassLoader()
    return engine.classes[name]


def instance(engine: Engine, name: str, source: str) -> Any:
    """The one object of such a class."""
    made = f"{name}()"
    if made not in engine.classes:
        engine.classes[made] = class_loader(engine, name, source).loadClass(name).newInstance()
    return engine.classes[made]
