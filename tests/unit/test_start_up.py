from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from webapp.embedded.ports import free_port

LOADED = "import sys, django; django.setup(); print(*sorted(m for m in sys.modules if m.startswith('webapp.')))"


def started(home: Path, program: str, **others: str) -> list[str]:
    """The words that a new process prints."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings", "TIDEMARK_HOME": str(home), **others}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, check=True, capture_output=True, text=True
    ).stdout.split()


def test_a_process_that_starts_loads_models_and_signals_only(tmp_path: Path) -> None:
    """Seen: receivers that were connected at the start loaded the whole worker, half a second of every command."""
    loaded = started(tmp_path, LOADED)
    assert "webapp.worker.signals" in loaded
    assert not [
        name for name in loaded if name.startswith(("webapp.worker.run", "webapp.worker.store", "webapp.console"))
    ]
    assert not {"webapp.telemetry.delivery", "webapp.replicators.services"} & set(loaded)


PAGES = """
import importlib, sys, django
django.setup()
from django.conf import settings
importlib.import_module(settings.ROOT_URLCONF)
print(*{"pyspark", "py4j", "pyiceberg", "sqlalchemy", "boto3", "deltalake"} & set(sys.modules), "loaded")
"""


def test_a_web_server_that_starts_loads_neither_spark_nor_a_client_of_a_lake(tmp_path: Path) -> None:
    """Seen: a setting's parser beside Iceberg's own side of it doubled the time of every start."""
    assert started(tmp_path, PAGES) == ["loaded"]


DRIVER = """
import sys, django
django.setup()
early = "psycopg" in sys.modules
from django.db import connection
from django.db.backends.postgresql import psycopg_any
import psycopg
print(early, connection.Database.__name__, psycopg_any.is_psycopg3, psycopg.pq.__impl__)
"""


def test_the_metadata_database_is_reached_by_psycopg2_though_psycopg_3_is_there(tmp_path: Path) -> None:
    """Django prefers psycopg 3; the web server's time limits are psycopg2's wait callback."""
    assert started(tmp_path, DRIVER) == ["False", "psycopg2", "False", "binary"]


AHEAD = """
import threading, django
django.setup()
from django.db import connections
from webapp.worker.run.spark import start_ahead
threading.excepthook = lambda args: print(args.exc_type.__name__)
start_ahead()
[one.join() for one in threading.enumerate() if one.name == "jvm"]
print("ended")
"""


def test_a_worker_that_starts_while_the_metadata_database_is_away_leaves_spark_for_later(tmp_path: Path) -> None:
    """Seen: a merge worker and the database were restarted at once, and its thread ended in a traceback."""
    away = f"postgres://nobody@127.0.0.1:{free_port()}/none"
    assert started(tmp_path, AHEAD, DATABASE_URL=away) == ["ended"]
