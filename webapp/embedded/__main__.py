"""`python -m webapp.embedded exec -- COMMAND …`: run a command with a Postgres and a Redis of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.redis import EmbeddedRedis


def main(arguments: list[str]) -> int:
    """The command's exit code; 2 for wrong use."""
    if arguments[:2] != ["exec", "--"] or len(arguments) < 3:  # noqa: PLR2004
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        Path(folder).chmod(0o755)
        postgres = EmbeddedPostgres(Path(folder) / "postgres", durable=False)
        redis = EmbeddedRedis(Path(folder) / "redis")
        try:
            postgres.start()
            redis.start()
            home = {"TIDEMARK_HOME": folder, "DATABASE_URL": postgres.url, "REDIS_URL": redis.url}
            return subprocess.run(arguments[2:], env={**os.environ, **home}, check=False).returncode
        finally:
            redis.stop()
            postgres.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
