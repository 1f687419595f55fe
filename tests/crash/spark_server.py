"""`python -m tests.crash.spark_server`: a Spark that outlives the workers that use it; ends when stdin does.

Writes {"port": …, "secret": …, "pid": …, "jars": […]} to stdout when it is ready.
"""

from __future__ import annotations

import json
import os
import sys

import django


def main() -> None:
    """Until stdin ends."""
    django.setup()
    from replicator.targets.iceberg.destination import AWS
    from replicator.targets.iceberg.jvm import jvm
    from webapp.destinations.lakes import built_in_lake
    from webapp.worker.run.spark import spark

    running = spark(built_in_lake(), lambda: frozenset({AWS})).spark()
    running.root.sparkContext.setLogLevel("OFF")  # Spark is there for those who attach
    parameters = running.gateway.java_parameters
    handle = running.jvm.java.lang.ProcessHandle.current().pid()
    said = {"port": parameters.port, "secret": parameters.auth_token, "pid": int(handle)}
    print(json.dumps({**said, "jars": [str(jar) for jar in running.jars]}), flush=True)
    sys.stdin.read()
    jvm.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
