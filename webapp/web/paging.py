"""Lists in pages."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict


@dataclass(frozen=True)
class Pager:
    """One page of a list; the addresses keep the other parameters.  `target` is the fragment that htmx replaces."""

    page: int
    per_page: int
    total: int
    path: str
    query: QueryDict
    target: str = ""

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.per_page))

    @property
    def first(self) -> int:
        return (self.page - 1) * self.per_page + 1

    @property
    def last(self) -> int:
        return min(self.total, self.page * self.per_page)

    @property
    def previous_url(self) -> str:
        return self._url(self.page - 1)

    @property
    def next_url(self) -> str:
        return self._url(self.page + 1)

    def _url(self, page: int) -> str:
        query = self.query.copy()
        query["page"] = str(page)
        return f"{self.path}?{query.urlencode()}"


def page_number(query: QueryDict) -> int:
    """The `page` parameter; 1 for anything that is not a number above it."""
    text = query.get("page", "1")
    return max(1, int(text)) if text.isdigit() and len(text) < 9 else 1  # noqa: PLR2004
