"""What the engine tells people: rows for the logs page, and one JSON line each on stdout."""

from __future__ import annotations

import json
import logging
from typing import Any

from django.db import DatabaseError, InterfaceError, connection

from replicator.engine.reporting import Level
from replicator.model.identifiers import TableId
from replicator.redaction import redacted, redacted_values
from webapp.database import without_nul
from webapp.monitoring.models import Stage

LOGGER = logging.getLogger("tidemark.engine")
NUMBERS = {Level.DEBUG: 10, Level.INFO: 20, Level.WARNING: 30, Level.ERROR: 40}
LONGEST, MAX_STACK = 4000, 12_000
# Each merge writes one: no line waits for the disk, unless it is part of a transaction that must.
LINE = """
INSERT INTO monitoring_logline (replicator_id, at, level, stage, "table", message, detail)
SELECT %s, clock_timestamp(), %s, %s, %s, %s, %s
FROM (SELECT set_config('synchronous_commit', COALESCE(%s, current_setting('synchronous_commit')), true)) AS durability
"""


class OrmReporter:
    """`replicator.engine.reporting.Reporter`, bound to one replicator and stage.

    Never raises: a lost line is not worth a slice.
    """

    def __init__(self, replicator_id: int, name: str, stage: Stage) -> None:
        self._id, self._name, self._stage = replicator_id, name, stage

    def log(self, level: Level, message: str, *, table: TableId | None = None, **detail: Any) -> None:
        """`detail` is JSON-able."""
        text = redacted(str(without_nul(message)))[:LONGEST]
        clean = redacted_values(without_nul(detail))
        for key, value in clean.items():
            if isinstance(value, str):
                clean[key] = value[: MAX_STACK if key == "stack" else LONGEST]
        name = str(table) if table else ""
        fields = {"replicator": self._name, "stage": str(self._stage), "table": name, "detail": clean}
        LOGGER.log(NUMBERS[level], text, extra={"fields": fields})
        try:
            durability = None if connection.in_atomic_block else "off"
            values = [self._id, level.value, str(self._stage), name[:255], text, json.dumps(clean), durability]
            with connection.cursor() as cursor:
                cursor.execute(LINE, values)
        except (DatabaseError, InterfaceError, TypeError, ValueError):
            LOGGER.warning("A log line could not be stored.", extra={"fields": fields})
            if not connection.in_atomic_block:
                connection.close()
