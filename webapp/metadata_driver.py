"""The driver of the metadata database: psycopg2.

Django takes psycopg 3 wherever it finds it.  Here it is installed for the log of a Postgres source (ADR 39), and the
web server's time limits are psycopg2's (`web/serving.py`).
"""

from __future__ import annotations

import sys
from importlib import import_module


def keep_to_psycopg2() -> None:
    """Load Django's backend as if psycopg 3 were not installed; before anything else loads it, and before any
    thread.
    """
    backend, name = "django.db.backends.postgresql", "psycopg"
    if f"{backend}.base" not in sys.modules:
        sys.modules.pop(f"{backend}.psycopg_any", None)  # mypy's plugin for Django has loaded it already
    found = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # https://docs.python.org/3/reference/import.html#the-module-cache
    try:
        import_module(f"{backend}.base")
    finally:
        del sys.modules[name]
        if found is not None:
            sys.modules[name] = found
