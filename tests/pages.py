"""Pages as a browser shows their text."""

from __future__ import annotations

from typing import Any


def page_text(response: Any) -> str:
    """HTML with one space for each run of white space: the line breaks of a template do not matter."""
    return " ".join(str(response.content.decode()).split())
