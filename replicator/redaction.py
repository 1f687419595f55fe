"""Redact secrets in texts (invariant 8): what stands in the place of a secret is hidden, by its place alone.

A text is never searched for the secret's value: if a password is a word or one letter, the gaps in other sentences
would reveal it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "•••"
_NAME = (
    r"(?:password|passwd|passphrase|pwd|secret|token|credential|signature|\bsig"
    r"|(?:access|secret|api|signing|account|shared)[._-]?key)"
)
_QUOTED = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*\""""
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>]+")
# password=… of libpq, of properties files and of query strings; "password": "…" of JSON and of Python.
_SETTING = re.compile(rf"(?i)(\b[\w.-]{{0,40}}{_NAME}=)(?:{_QUOTED}|[^\s,;&'\"<>)}}\]]+)")
_ITEM = re.compile(rf"(?i)(\b[\w.-]{{0,40}}{_NAME}['\"]?\s*[:=]\s*)(?:{_QUOTED})")
_HEADER = re.compile(r"(?i)(\bauthorization\b['\"]?\s*[:=]\s*['\"]?\w+\s+)[^\s'\",;]+")
# IDENTIFIED BY '…', IDENTIFIED WITH plugin AS '…', PASSWORD '…', PASSWORD('…')
_SQL = re.compile(
    rf"(?i)(\b(?:identified\s+(?:(?:with|via)\s+\S+\s+)?(?:by|as|using)(?:\s+password)?|password)\s*\(?\s*)(?:{_QUOTED})"
)
_SECRET_KEY = re.compile(rf"(?i)(?:[\w.-]*[._-])?{_NAME}|authorization")


def redacted(text: str) -> str:
    """`text` without what stands in the place of a password: in URLs, connection strings, settings, headers and SQL."""
    if "://" in text:
        text = _URL.sub(_without_login, text)
    for place in (_SQL, _ITEM, _SETTING, _HEADER):
        text = place.sub(rf"\1{HIDDEN}", text)
    return text


def redacted_values(value: Any, name: str = "") -> Any:
    """The same of JSON-able values: what has the name of a secret is hidden whole."""
    if isinstance(value, str):
        return HIDDEN if value and _SECRET_KEY.fullmatch(name) else redacted(value)
    if isinstance(value, Mapping):
        return {str(key): redacted_values(item, str(key)) for key, item in value.items()}
    return [redacted_values(item) for item in value] if isinstance(value, list | tuple) else value


def _without_login(match: re.Match[str]) -> str:
    """The password of user:password@host, also where it holds characters that should have been escaped."""
    scheme, _, rest = match[0].partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, colon, port = authority.rpartition(":")
    torn = "@" not in authority and "@" in rest and bool(colon) and not re.fullmatch(r"\d*", port)
    login, at, host = (rest if torn else authority).rpartition("@")
    if not at:
        return match[0]
    user, colon, _ = login.partition(":")
    return f"{scheme}://{user}{':' + HIDDEN if colon else ''}@{host}{'' if torn else rest[len(authority) :]}"
