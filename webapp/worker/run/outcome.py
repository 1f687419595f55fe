"""How a run without Celery ends."""

from __future__ import annotations

from enum import Enum


class ExitCode(Enum):
    """Exit codes of `manage.py run`."""

    CURRENT = 0
    FAILED = 1
    TIMEOUT = 2
