"""Lines on stdout, as JSON objects or as text (TIDEMARK_LOG_FORMAT), secrets hidden (invariant 8)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from replicator.redaction import redacted, redacted_values

# What a line is about stands at the top of it, where log stores find it; the rest below `detail`.
ABOUT = ("replicator", "stage", "table", "code")


class JsonFormatter(logging.Formatter):
    """at, level, logger, message; replicator, stage, table, code where known; `detail`; the stack where there is
    one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return json.dumps(fields_of(record, self), default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """`2026-11-21T22:10:01.123Z warning shop capture shop.orders [log_large] message`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the stack's where there is one."""
        line = fields_of(record, self)
        code = f"[{line['code']}]" if line.get("code") else ""
        about = [line.get(name, "") for name in ("replicator", "stage", "table")]
        words = [line["at"], line["level"], *about, code, line["message"], line.get("stack", "")]
        return " ".join(str(word) for word in words if word)


def fields_of(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, Any]:
    """The line's parts, without secrets.  A record's `fields` never take the place of what every line has."""
    given = dict(getattr(record, "fields", {}))
    detail = dict(given.pop("detail", {}) or {})
    line: dict[str, Any] = {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": redacted(record.getMessage()),
    }
    for name in ABOUT:
        if value := given.pop(name, None) or (detail.pop(name, None) if name == "code" else None):
            line[name] = redacted_values(value, name)
    if rest := {**given, **detail}:
        line["detail"] = redacted_values(rest)
    if record.exc_info:
        line["stack"] = redacted(formatter.formatException(record.exc_info))
    return line
