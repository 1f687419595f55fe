"""One JSON object per line on stdout, secrets scrubbed (invariant 8)."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

# user:password@ in URLs, and password=…, token=… in any spelling.
_URL = re.compile(r"(?<=://)([^\s:/@]*):([^\s/@]+)@")
_PAIR = re.compile(
    r"(?i)\b(password\s*[=:]|passwd\s*[=:]|pwd\s*[=:]|secret\s*[=:]|token\s*[=:]|identified by\s)(\s*)(['\"]?)[^\s'\",;&}]+\3"
)


def scrub(text: str, secrets: tuple[str, ...] = ()) -> str:
    """`text` without the given secret values and without what looks like one."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "•••")
    return _PAIR.sub(r"\1\2•••", _URL.sub(r"\1:•••@", text))


class JsonFormatter(logging.Formatter):
    """at, level, logger, message, the record's `fields`, and the stack where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scrub(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["stack"] = scrub(self.formatException(record.exc_info))
        return json.dumps(line, default=str, ensure_ascii=False)
