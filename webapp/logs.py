"""Lines on stdout, as JSON objects or as text (TIDEMARK_LOG_FORMAT), secrets scrubbed (invariant 8)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

# user:password@ in URLs, and password=…, token=… in any spelling.
_URL = re.compile(r"(?<=://)([^\s:/@]*):([^\s/@]+)@")
_PAIR = re.compile(
    r"(?i)\b(password\s*[=:]|passwd\s*[=:]|pwd\s*[=:]|secret\s*[=:]|token\s*[=:]|identified by\s)(\s*)(['\"]?)[^\s'\",;&}]+\3"
)
# What a line is about stands at the top of it, where log stores find it; the rest below `detail`.
ABOUT = ("replicator", "stage", "table", "code")
SHORTEST_SECRET = 4  # shorter ones would take words out of sentences


def scrub(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` without the given secret values and without what looks like one."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "•••")
    return _PAIR.sub(r"\1\2•••", _URL.sub(r"\1:•••@", text))


def own_secrets() -> tuple[str, ...]:
    """Those of this installation's settings."""
    from django.conf import settings  # noqa: PLC0415 - formatters are made while the settings load

    values = (
        settings.SECRET_KEY,
        settings.DATABASES["default"]["PASSWORD"],
        settings.TIDEMARK_METRICS_TOKEN,
        settings.TIDEMARK_OPENLINEAGE_TOKEN,
    )
    return tuple(value for value in values if len(value) >= SHORTEST_SECRET)


def _clean(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return scrub(value, secrets)
    if isinstance(value, Mapping):
        return {str(key): _clean(item, secrets) for key, item in value.items()}
    return [_clean(item, secrets) for item in value] if isinstance(value, list | tuple) else value


class JsonFormatter(logging.Formatter):
    """at, level, logger, message; replicator, stage, table, code where known; `detail`; the stack where there is one."""

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
    """The line's parts, scrubbed.  A record's `fields` never take the place of what every line has."""
    secrets = own_secrets()
    given = dict(getattr(record, "fields", {}))
    detail = dict(given.pop("detail", {}) or {})
    line: dict[str, Any] = {
        "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": scrub(record.getMessage(), secrets),
    }
    for name in ABOUT:
        if value := given.pop(name, None) or (detail.pop(name, None) if name == "code" else None):
            line[name] = _clean(value, secrets)
    if rest := {**given, **detail}:
        line["detail"] = _clean(rest, secrets)
    if record.exc_info:
        line["stack"] = scrub(formatter.formatException(record.exc_info), secrets)
    return line
