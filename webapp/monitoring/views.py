"""The logs page: filter, follow, download."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from webapp.monitoring import selectors
from webapp.monitoring.models import LogLine
from webapp.replicators.models import Replicator
from webapp.replicators.selectors import tables_of
from webapp.replicators.views.detail import page, replicator_or_404

SHOWN = 200
DOWNLOAD_PAGE = 2000
TABLES_OFFERED = 500


@dataclass(frozen=True)
class Filters:
    """What the reader wants to see; `level` is the least one shown."""

    level: str = ""
    table: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        """Unknown levels show everything."""
        level = query.get("level", "")
        return cls(level if level in selectors.LEVELS else "", query.get("table", ""), query.get("text", "").strip())

    @property
    def any(self) -> bool:
        return bool(self.level or self.table or self.text)


@login_required
@require_safe
def logs(request: HttpRequest, pk: int) -> HttpResponse:
    """The newest lines, or those before one; followed live unless told not to."""
    replicator = replicator_or_404(pk)
    filters = Filters.of(request.GET)
    before = request.GET.get("before", "")
    lines = selectors.log_lines(
        replicator, **asdict(filters), before=int(before) if before.isdigit() else None, limit=SHOWN
    )
    tables = [str(table) for table in tables_of(replicator)[:TABLES_OFFERED]]
    query = request.GET.copy()
    query.pop("before", None)
    context = {
        "lines": lines,
        "filters": filters,
        "levels": selectors.LEVELS,
        "log_tables": tables,
        "following": not before and request.GET.get("follow", "on") == "on",
        "older": lines[0].pk if len(lines) == SHOWN else None,
        "before": before,
        "query": query.urlencode(),
    }
    return page(request, replicator, "logs", context)


@login_required
@require_safe
def download(request: HttpRequest, pk: int) -> StreamingHttpResponse:
    """Every line that matches, oldest first, as text or JSON lines."""
    replicator = replicator_or_404(pk)
    as_json = request.GET.get("format") == "jsonl"
    form = _json_line if as_json else _text_line
    body = (form(line) for line in _all_lines(replicator, Filters.of(request.GET)))
    content_type = "application/x-ndjson" if as_json else "text/plain; charset=utf-8"
    response = StreamingHttpResponse(body, content_type=content_type)
    name = f"{slugify(replicator.name) or replicator.pk}.{'jsonl' if as_json else 'log'}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _all_lines(replicator: Replicator, filters: Filters) -> Iterator[LogLine]:
    after = 0
    while found := selectors.log_lines(replicator, **asdict(filters), after=after, limit=DOWNLOAD_PAGE):
        yield from found
        after = found[-1].pk


def _text_line(line: LogLine) -> str:
    table = f" {line.table}:" if line.table else ""
    detail = f" {json.dumps(line.detail, default=str)}" if line.detail else ""
    return f"{line.at.isoformat()} {line.level.upper():7} {line.stage}{table} {line.message}{detail}\n"


def _json_line(line: LogLine) -> str:
    names = ("level", "stage", "table", "message", "detail")
    return json.dumps({"at": line.at.isoformat()} | {name: getattr(line, name) for name in names}) + "\n"
