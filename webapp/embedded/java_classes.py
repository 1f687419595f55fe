"""The classes that every JVM of Tidemark loads, kept ready for it: Java's class data sharing.

A JVM finds, reads and checks some ten thousand classes before it is of use; from an archive, which it maps into memory,
it has them in half of the time and of the CPU.  `webapp.worker.java_classes` makes the archive.  A JVM passes over, in
silence, one of another Java or of jars in another place.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import distribution, version
from pathlib import Path

from webapp.embedded.java_artifacts import SPARK, cache_folder

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")  # about an archive that does not fit


def archive() -> Path:
    """Where it is, for these jars at this place: two checkouts share the folder, not the archive."""
    place = str(distribution("pyspark").locate_file("pyspark"))
    jars = hashlib.sha256(" ".join([place, version("pyspark"), *(jar.sha256 for jar in SPARK)]).encode()).hexdigest()
    return cache_folder() / f"java-classes-{jars[:12]}.jsa"


def java_options() -> tuple[str, ...]:
    """So that a JVM uses it, where it is."""
    path = archive()
    return (f"-XX:SharedArchiveFile={path}", *QUIET) if path.exists() and " " not in str(path) else ()
