"""The classes that every JVM of Tidemark loads, kept ready for it: Java's class data sharing.

A JVM finds, reads and checks some ten thousand classes before it is of use; from an archive, which it maps into memory, it has them in half of
the time and of the CPU.  `webapp.worker.java_classes` makes the archive.  One of another Java is passed over.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

from webapp.embedded.java_artifacts import SPARK, cache_folder

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")  # about an archive that does not fit


def archive() -> Path:
    """Where it is, for these versions."""
    versions = hashlib.sha256(" ".join([version("pyspark"), *(jar.sha256 for jar in SPARK)]).encode()).hexdigest()
    return cache_folder() / f"java-classes-{versions[:12]}.jsa"


def java_options() -> tuple[str, ...]:
    """So that a JVM uses it, where it is."""
    path = archive()
    return (f"-XX:SharedArchiveFile={path}", *QUIET) if path.exists() and " " not in str(path) else ()
