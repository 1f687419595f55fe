"""A started JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from replicator.targets.iceberg.jvm.connect import new_session


@dataclass(frozen=True)
class Engine:
    """A started JVM, with `jars` on its class path.

    `jvm` and `gateway` are py4j's: Any, and used by `targets.iceberg.catalog` only.

    `begin` starts Spark in it; with Spark Connect it runs elsewhere.
    """

    begin: Callable[[], Any]
    jvm: Any
    gateway: Any
    hadoop: Any
    generation: int
    process: int
    remote: str
    jars: Sequence[Path] = ()
    classes: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _begun: list[Any] = field(default_factory=list, repr=False, compare=False)
    _beginning: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _making: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    @property
    def root(self) -> Any:
        """The first session, of which all others are made; Spark is started for it."""
        with self._beginning:
            if not self._begun:
                self._begun.append(self.begin())
            return self._begun[0]

    def end(self) -> None:
        """Stop Spark, where it has begun."""
        with self._beginning:
            for session in self._begun:
                session.stop()

    def java(self, name: str) -> Any:
        """A Java class, or what is static in one, by its full name: py4j asks the JVM for each part of it, so it is
        asked once.
        """
        if name not in self.classes:
            found = self.jvm
            for part in name.split("."):
                found = getattr(found, part)
            self.classes[name] = found
        return self.classes[name]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` makes for this name, called once; other callers wait for it meanwhile."""
        with self._making:
            if name not in self.classes:
                self.classes[name] = make()
            return self.classes[name]

    def new_session(self) -> SparkSession:
        """Return a session with separate settings and views."""
        if self.remote:
            return new_session(self.remote)
        child: SparkSession = self.root.newSession()
        return child

    def use_pool(self, name: str) -> None:
        """Jobs of this thread get their fair share (Spark's default pool is first come, first served)."""
        if not self.remote:
            self.root.sparkContext.setLocalProperty("spark.scheduler.pool", name)
