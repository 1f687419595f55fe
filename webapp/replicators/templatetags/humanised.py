"""Numbers, sizes, durations and times the way people read them; icons and state words."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webapp.console.presenters.labels import StateWord, replicator_word, table_word
from webapp.web.edit_conflicts import FIELD, digest

register = template.Library()
NOTHING = "–"
THOUSAND = 1000
MINUTE, HOUR, DAY = 60, 3600, 86_400
PRECISE_BELOW = 10


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """An icon of the sprite; decoration only, so hidden from assistive technology."""
    href = f"{static('img/icons.svg')}#{name}"
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="{}"></use></svg>', extra, href)


@register.filter
def count(value: float | None) -> str:
    """1234567 → 1,234,567."""
    return NOTHING if value is None else f"{value:,.0f}"


@register.filter
def short(value: float | None) -> str:
    """1234567 → 1.2 M."""
    if value is None:
        return NOTHING
    number = float(value)
    for unit in ("", " k", " M", " G"):
        if abs(number) < THOUSAND or unit == " G":
            break
        number /= THOUSAND
    digits = 1 if unit and abs(number) < THOUSAND / 10 else 0
    return f"{number:,.{digits}f}{unit}"


@register.filter
def rate(value: float | None) -> str:
    """Rows a second: one decimal below ten, so that a trickle is not zero."""
    if value is None:
        return NOTHING
    if 0 < value < PRECISE_BELOW:
        return "< 0.1" if value < 0.1 else f"{value:.1f}"  # noqa: PLR2004
    return short(value)


@register.filter
def size(value: float | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return NOTHING
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":  # noqa: PLR2004
            break
        number /= 1024
    return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"  # noqa: PLR2004


def span(seconds: float) -> str:
    """0.4 → 400 ms, 75 → 1 min 15 s, 90000 → 1 d 1 h."""
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < PRECISE_BELOW:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, below, below_name in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s")):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name} {rest} {below_name}" if rest else f"{whole // unit} {name}"
    return f"{whole} s"


@register.filter
def duration(seconds: float | None) -> str:
    """A duration given in seconds."""
    return NOTHING if seconds is None else span(max(0.0, float(seconds)))


@register.filter
def minutes(value: float | None) -> str:
    """A duration given in minutes."""
    return NOTHING if value is None else duration(float(value) * MINUTE)


@register.filter
def duration_ms(milliseconds: float | None) -> str:
    """A duration given in milliseconds."""
    return NOTHING if milliseconds is None else duration(milliseconds / THOUSAND)


def exact(moment: datetime) -> str:
    """The moment in full, for titles: in UTC, which servers and their logs have."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """A relative time with the exact one in its title; also for moments ahead."""
    if moment is None:
        return NOTHING
    seconds = (timezone.now() - moment).total_seconds()
    if abs(seconds) < 5:  # noqa: PLR2004
        text = "just now" if seconds >= 0 else "in a moment"
    else:
        largest = " ".join(span(abs(seconds)).split()[:2])
        text = f"{largest} ago" if seconds > 0 else f"in {largest}"
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(moment), text)


@register.filter
def ahead(moment: datetime | None) -> SafeString | str:
    """Like `ago`, for what is due: a moment that has passed is now."""
    return "now" if moment is not None and moment <= timezone.now() else ago(moment)


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    """Date and time to the millisecond, for log lines, in the reader's zone."""
    if moment is None:
        return NOTHING
    text = f"{moment.astimezone(timezone.get_current_timezone()):%m-%d %H:%M:%S.%f}"[:-3]
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(moment), text)


@register.filter
def percent(value: float | None) -> str:
    """99.5 → 99.5 %, 100.0 → 100 %."""
    return NOTHING if value is None else f"{value:.2f}".rstrip("0").rstrip(".") + " %"


@register.filter
def share(value: float | None) -> str:
    """A part of the whole, rounded down: 99.998 → 99.99 %, so that 100 % means all.  Below zero too (an overspent budget)."""
    return NOTHING if value is None else percent(math.floor(value * 100 + 1e-9) / 100)


@register.filter
def times(value: float | None) -> str:
    """A burn rate: 0.04 ×, 14.4 ×."""
    if value is None:
        return NOTHING
    return f"{value:,.0f} ×" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".") + " ×"  # noqa: PLR2004


@register.filter
def words(value: Any) -> str:
    """add_column → add column."""
    return str(value).replace("_", " ").replace(".", " · ")


@register.simple_tag
def vals(**values: str) -> str:
    """JSON for hx-vals; escaped by the template like any text."""
    return json.dumps(values)


@register.filter
def slug(value: object) -> str:
    """An id for the page, the same for the same text, whatever characters it has."""
    return hashlib.sha256(str(value).encode()).hexdigest()[:12]


@register.filter
def sorted_join(values: Iterable[str]) -> str:
    """Names in order."""
    return ", ".join(sorted(values))


@register.inclusion_tag("parts/state.html")
def replicator_state(replicator: Any) -> dict[str, StateWord]:
    """The state of a replicator as icon and word."""
    return {"word": replicator_word(replicator.status, replicator.desired)}


@register.inclusion_tag("parts/state.html")
def table_state(table: Any) -> dict[str, StateWord]:
    """The state of a table as icon and word."""
    return {"word": table_word(table.state, retrying=table.retry_at is not None)}


@register.inclusion_tag("parts/state.html")
def state_word(word: StateWord) -> dict[str, StateWord]:
    """A state that was put into words already."""
    return {"word": word}


@register.simple_tag
def as_of(stored: Any) -> SafeString:
    """What the form is filled from: see `webapp.web.edit_conflicts`."""
    return format_html('<input type="hidden" name="{}" value="{}">', FIELD, digest(stored))
