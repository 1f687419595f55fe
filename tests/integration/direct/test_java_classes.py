"""The archive of Java's classes."""

from __future__ import annotations

from pathlib import Path

from replicator.targets.iceberg.jvm import jvm
from tests.integration.spark.lake import Lake
from webapp.embedded.java_classes import archive


def test_a_jvm_maps_the_archive_and_does_not_run_spark_before_somebody_asks_for_a_session(lake: Lake) -> None:
    """In a separate JVM: that of another test may run Spark, or have the jars of a store before ours."""
    apart = jvm._start(lake.config, 0)
    try:
        process = apart.java("java.lang.ProcessHandle").current().pid()
        assert str(archive()) in Path(f"/proc/{process}/maps").read_text()
        assert apart.java("org.apache.iceberg.CatalogUtil")
        assert "dispatcher-event-loop" not in apart.java("java.lang.Thread").getAllStackTraces().keySet().toString()
    finally:
        apart.gateway.shutdown()
        apart.gateway.proc.kill()
        apart.gateway.proc.wait()
