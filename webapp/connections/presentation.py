"""The connection test in words, and the setup guide as a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from replicator.sources.base import CheckResult

SQL = re.compile(
    r"\s*(--|(GRANT|SET|CREATE|ALTER|SHOW|SELECT|FLUSH|REVOKE|INSERT|UPDATE|CALL|PURGE|DROP|ROLLBACK|REINDEX)\b)"
)
# status → (word, icon, tone)
WORDS: Mapping[str, tuple[str, str, str]] = {
    "ok": ("passed", "ok", "ok"),
    "warning": ("warning", "warning", "warn"),
    "failed": ("failed", "failed", "bad"),
    "skipped": ("skipped", "skipped", "muted"),
}


IN_ORDER = ("failed", "warning", "ok", "skipped")


@dataclass(frozen=True)
class CheckLine:
    """One named check."""

    title: str
    status: str
    detail: str
    remedy: str

    @property
    def word(self) -> str:
        return WORDS[self.status][0]

    @property
    def icon(self) -> str:
        return WORDS[self.status][1]

    @property
    def tone(self) -> str:
        return WORDS[self.status][2]

    @property
    def sql(self) -> str:
        """The statements at the remedy's beginning, to be pasted; empty where it is a sentence."""
        return split_remedy(self.remedy)[0]

    @property
    def note(self) -> str:
        """What the remedy says beyond its statements."""
        return split_remedy(self.remedy)[1]


def split_remedy(remedy: str) -> tuple[str, str]:
    """`SET GLOBAL x = 1; (and in my.cnf)` → the statement, and the words after it."""
    statements, rest = "", remedy
    while SQL.match(rest):
        statement, end, rest = rest.partition(";")
        statements += statement + end
        if not end:
            break
    return statements.strip(), rest.strip()


def check_lines(results: Iterable[CheckResult | Mapping[str, Any]]) -> list[CheckLine]:
    """From results, or from their stored form: what failed first, what was not looked at last."""
    lines = []
    for result in results:
        if isinstance(result, CheckResult):
            lines.append(CheckLine(result.title, str(result.status), result.detail, result.remedy))
        else:
            lines.append(CheckLine(result["title"], result["status"], result["detail"], result.get("remedy", "")))
    return sorted(lines, key=lambda line: IN_ORDER.index(line.status))


def check_summary(lines: list[CheckLine]) -> dict[str, Any]:
    """How many of each status, `total` of those that ran, and `script`: all statements that mend something, where there
    are several.
    """
    counts = {status: sum(line.status == status for line in lines) for status in WORDS}
    wrong = [line for line in lines if line.sql]
    script = "\n".join(dict.fromkeys(f"-- {line.title}\n{line.sql}" for line in wrong)) if len(wrong) > 1 else ""
    return counts | {"total": len(lines) - counts["skipped"], "script": script}


def guide(markdown: str) -> SafeString:
    """HTML of a setup guide.  Raw HTML in it is shown as text."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table")
    html: str = renderer.render(markdown).replace(
        "<pre>", '<pre tabindex="0">'
    )  # scrolls sideways: reachable by keyboard
    return mark_safe(html)  # noqa: S308 - escaped by the renderer
