"""Databases of the emulator: `model` has all that a database needs, and is copied for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from testing.servers.sqlserver.database.types import types

MODEL = "model"
FOLDER = Path(__file__).parent
FILES = ("conversions", "collations", "state", "functions", "variants", "catalog", "server_views", "cdc", "tracking")
Connect = Callable[[str], psycopg.Connection[Any]]


def prepare(connect: Connect) -> None:
    """Make `model` and `master`, if they are not there."""
    statements = [types(), *((FOLDER / f"{name}.sql").read_text() for name in FILES)]
    digest = hashlib.sha256("".join(statements).encode()).hexdigest()[:16]
    with connect("postgres") as admin:
        rows = admin.execute("SELECT datname FROM pg_database WHERE datname IN ('model', 'master')").fetchall()
        if len(rows) == 2:
            return
        for (name,) in rows:
            admin.execute(f"DROP DATABASE {name}")
        admin.execute("CREATE DATABASE model TEMPLATE template0")
    with connect(MODEL) as model:
        for one in statements:
            model.execute(one)
    with connect("postgres") as admin:
        admin.execute("CREATE DATABASE master TEMPLATE model")
        admin.execute(f'COMMENT ON DATABASE model IS \'{{"digest": "{digest}"}}\'')
