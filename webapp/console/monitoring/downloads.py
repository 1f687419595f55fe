"""A log as a file: lines of text, or JSON objects; streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.db.models import Max
from django.http import StreamingHttpResponse
from django.utils.text import slugify

from webapp.monitoring import selectors
from webapp.monitoring.models import LogLine
from webapp.replicators.models import Replicator

PAGE = 2000
JSON_FORM = "jsonl"
STACK = "stack"


def log_file(replicator: Replicator, form: str, filters: Mapping[str, Any]) -> StreamingHttpResponse:
    """Every line that is there now and matches, oldest first; a page of them in memory at a time (invariant 9).

    form: `jsonl`, else text.  filters: those of `selectors.log_lines`.
    """
    write: Callable[[LogLine], str] = _json_line if form == JSON_FORM else _text_line
    kind, ending = ("application/x-ndjson", "jsonl") if form == JSON_FORM else ("text/plain; charset=utf-8", "log")
    response = StreamingHttpResponse(map(write, _lines(replicator, filters)), content_type=kind)
    name = f"{slugify(replicator.name) or replicator.pk}.{ending}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _lines(replicator: Replicator, filters: Mapping[str, Any]) -> Iterator[LogLine]:
    end = LogLine.objects.filter(replicator=replicator).aggregate(last=Max("id"))["last"] or 0
    after = 0
    while found := selectors.log_lines(replicator, **filters, after=after, before=end + 1, limit=PAGE):
        yield from found
        after = found[-1].pk


def _text_line(line: LogLine) -> str:
    """What it says first, the rest behind it, a stack below."""
    table = f" {line.table}:" if line.table else ""
    rest = {name: value for name, value in line.detail.items() if name != STACK}
    detail = f" {json.dumps(rest, default=str, ensure_ascii=False)}" if rest else ""
    message = line.message.replace("\n", "\n    ")
    stack = "".join(f"    | {one}\n" for one in str(line.detail.get(STACK, "")).splitlines())
    at = line.at.isoformat(timespec="milliseconds")
    return f"{at} {line.level.upper():7} {line.stage}{table} {message}{detail}\n{stack}"


def _json_line(line: LogLine) -> str:
    names = ("level", "stage", "table", "message", "detail")
    about = {"at": line.at.isoformat()} | {name: getattr(line, name) for name in names}
    return json.dumps(about, ensure_ascii=False) + "\n"
