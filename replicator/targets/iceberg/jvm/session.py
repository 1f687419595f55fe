"""One long-lived Spark per process, and the sessions that operations borrow from it."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from replicator.errors import TidemarkError
from replicator.targets.iceberg.destination import CATALOG
from replicator.targets.iceberg.jvm import connect, jvm
from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.errors import jvm_is_gone, stack_of, translated

JSON, MAP = "(JSON mapper)", "(map)"  # among an engine's Java classes
SQLITE = "jdbc:sqlite:"


@dataclass(frozen=True)
class SparkConfig:
    """Where Spark runs and where the Iceberg catalog lives.

    catalog_uri  JDBC address without credentials: `jdbc:postgresql://host:5432/db`, or `jdbc:sqlite:<file>`
    properties   of another catalog than a JDBC one at `catalog_uri`; own: it has this installation's tables only
    warehouse    URL below which tables are made (`file:///…`, `s3://…`); empty where the catalog decides
    master       a Spark master; `remote` (`sc://…`) wins over it.  A Connect server must have the Iceberg extensions
                 and jars. java_options of the local JVM, without spaces
    extra        further Spark settings; `spark.sql.catalog.lake.*` among them reach the catalog on both sides
    """

    jars: Sequence[Path]
    catalog_uri: str = ""
    warehouse: str = ""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    own: bool = True
    catalog_user: str = ""
    catalog_password: str = field(default="", repr=False)
    master: str = "local[*]"
    remote: str = ""
    driver_memory: str = "1g"
    ui: bool = False
    java_options: Sequence[str] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def here(self) -> bool:
        """Spark runs in this process's JVM, and opens what this machine's disk has."""
        return not self.remote and self.master.startswith("local")

    @property
    def catalog(self) -> dict[str, str]:
        """Properties of the Iceberg catalog, for Spark's side and for the Java API alike."""
        prefix = f"spark.sql.catalog.{CATALOG}."
        extra = {k.removeprefix(prefix): v for k, v in self.extra.items() if k.startswith(prefix)}
        if self.properties:
            return {**self.properties, "cache-enabled": "false", **extra}
        found = {
            "type": "jdbc",
            "uri": self.catalog_uri,
            "warehouse": self.warehouse,
            "jdbc.schema-version": "V1",
            "cache-enabled": "false",  # another process's commit must be seen by the next operation
        }
        if self.catalog_uri.startswith(SQLITE):
            found["jdbc.busy_timeout"] = "30000"
        if self.catalog_user:
            found["jdbc.user"] = self.catalog_user
        if self.catalog_password:
            found["jdbc.password"] = self.catalog_password
        return found | extra

    @property
    def compares_branches(self) -> bool:
        """Does the catalog compare a commit with the branches that it moves, and not with all of the metadata?"""
        return self.catalog["type"] == "rest"

    @property
    def session(self) -> dict[str, str]:
        """Settings of every session.

        The catalog's credentials are among them and not among the launch settings, because those stand on the
        JVM's command line and on the UI's environment page (invariant 8).
        """
        lake = f"spark.sql.catalog.{CATALOG}"
        return {
            **jvm.SESSION_SETTINGS,
            lake: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{lake}.{name}": value for name, value in self.catalog.items()},
        }


class SparkPool:
    """Sessions with separate settings over the process's one Spark.  Thread-safe; one for all targets of a catalog.

    A Spark session has its own Iceberg catalog with its own database connections, and never releases them.  So sessions
    are lent and returned, as many as there are concurrent operations, and the Java API has one catalog for all of them.
    One pool for each catalog; Spark and its JVM are the process's.
    """

    def __init__(self, config: SparkConfig) -> None:
        """Nothing starts before the first use."""
        self.config = config
        self._free: list[tuple[int, str, SparkSession]] = []
        self._lock = threading.Lock()
        self._names = itertools.count(1)
        self._catalog: tuple[int, Any] | None = None

    def spark(self) -> Engine:
        """The running engine; starts it.  Raises SparkUnavailable."""
        return jvm.running(self.config)

    def catalog(self) -> tuple[Engine, Any]:
        """The Iceberg catalog through the Java API, with the engine that it lives in.

        Raises SparkUnavailable, TargetError.
        """
        running = self.spark()
        with self._lock, guarded():
            if self._catalog is None or self._catalog[0] != running.generation:
                build = running.jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog
                properties = java_map(running, self.config.catalog)
                self._catalog = (running.generation, build(CATALOG, properties, running.hadoop))
            return running, self._catalog[1]

    def reset(self) -> None:
        """Forget what the catalog has given: the next use signs in again."""
        with self._lock:
            self._catalog = None
            self._free.clear()

    @contextlib.contextmanager
    def session(self, settings: Mapping[str, str]) -> Iterator[SparkSession]:
        """Lend a session in which `settings` hold; Spark's failures leave it translated.

        Raises TargetError and its kin.
        """
        running = self.spark()
        with guarded():
            name, session = self._take(running)
            running.use_pool(name)
            for key, value in settings.items():
                session.conf.set(key, value)
            try:
                yield session
            finally:
                with contextlib.suppress(Exception):  # a dead JVM or server: the session is not given back
                    for key in settings:
                        session.conf.unset(key)
                    with self._lock:
                        self._free.append((running.generation, name, session))

    def _take(self, running: Engine) -> tuple[str, SparkSession]:
        while (free := self._pop()) is not None:
            generation, name, session = free
            if generation == running.generation and (not self.config.remote or connect.lives(session)):
                return name, session
            self._free.clear()  # what came with it is gone, too: a JVM or a server that ended, an hour without use
        session = running.new_session()
        for key, value in self.config.session.items():
            session.conf.set(key, value)
        return f"tidemark-{next(self._names)}", session

    def _pop(self) -> tuple[int, str, SparkSession] | None:
        with self._lock:
            return self._free.pop() if self._free else None


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Translate what Spark and Java raise; a JVM that died is forgotten, so that the next use starts another."""
    newest = jvm.generation()
    try:
        yield
    except Exception as error:
        if jvm_is_gone(error):
            jvm.forget(newest)
        if (known := translated(error)) is error:
            raise
        if isinstance(known, TidemarkError):
            known.stack = known.stack or stack_of(error)
        raise known from (None if isinstance(error, Py4JError) else error.__cause__)


def from_java_map(running: Engine, values: Any) -> dict[str, str]:
    """A Java map of strings as Python's."""
    found: dict[str, str] = json.loads(_mapper(running).writeValueAsString(values))
    return found


def java_map(running: Engine, values: Mapping[str, str]) -> Any:
    """Make a Java map of strings: one call to the JVM, regardless of their number."""
    mapper = _mapper(running)
    return mapper.readValue(json.dumps(values), running.classes[MAP])


def _mapper(running: Engine) -> Any:
    kinds = running.classes
    if JSON not in kinds:
        kinds[MAP] = running.java("java.lang.Class.forName")("java.util.HashMap")
        kinds[JSON] = running.java("org.apache.iceberg.util.JsonUtil.mapper")()
    return kinds[JSON]
