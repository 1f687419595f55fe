"""Files on a local disk, written by Java without a process for each.

Hadoop's native library is in no wheel; without it Hadoop starts `chmod` for every file that it makes, and for its
checksum file: some 10 ms of CPU each, a dozen times in an Iceberg commit.  So Iceberg's catalog gets a file system that
leaves permissions to the umask.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.janino import class_loader

CLASS = "tidemark.PlainLocalFileSystem"
_SOURCE = """
package tidemark;

public class PlainLocalFileSystem extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission mode) {}
}
"""


def bypass_hadoop_permissions(engine: Engine, file_io: Any) -> None:
    """Let this HadoopFileIO write `file:` so; another FileIO, or a JVM that cannot, stays as it is."""
    if str(file_io.getClass().getSimpleName()) != "HadoopFileIO":
        return
    try:
        settings = file_io.conf()
        settings.setClassLoader(class_loader(engine, CLASS, _SOURCE))
        settings.set("fs.file.impl.disable.cache", "true")  # the cache goes by scheme, and is Spark's too
        settings.set("fs.file.impl", CLASS)
    except (Py4JError, TypeError):  # the latter: py4j's word for a class that is not there
        return
