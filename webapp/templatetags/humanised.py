"""Numbers, sizes, durations and times the way people read them; icons and state words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from replicator.errors import LogPurged, LogUnreadable, SourceReplaced
from webapp.console.presenters.labels import StateWord, replicator_word, table_word
from webapp.web.edit_conflicts import FIELD, digest
from webapp.web.formatting import (
    NOTHING,
    THOUSAND,
    duration,
    exact,
    minutes,
    rate,
    short,
    size,
    slug,
    span,
)

ACTION_ICONS = {
    "start": "play", "start-anew": "play", "resume": "play", "resume-snapshot": "play", "resume-snapshots": "play",
    "pause-snapshot": "pause", "pause-snapshots": "pause", "skip": "pause", "stop-snapshot": "stop",
    "resnapshot": "download", "cancel": "close", "remove": "trash",
}  # other actions have icons of the same name  # fmt: skip
register = template.Library()
for function in (short, rate, size, duration, minutes, slug):
    register.filter(function)


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """An icon of the sprite; decoration only, so hidden from assistive technology."""
    href = f"{static('img/icons.svg')}#{name}"
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="{}"></use></svg>', extra, href)


@register.simple_tag
def action_icon(action: str) -> SafeString:
    """Return the icon of an action on a replicator or table."""
    return icon(ACTION_ICONS.get(action, action))


@register.filter
def needs_restart(code: str) -> bool:
    """A restart from scratch is a way past an error of this code."""
    return code in {LogPurged.code, LogUnreadable.code, SourceReplaced.code}


@register.filter
def count(value: float | None) -> str:
    """1234567 → 1,234,567."""
    return NOTHING if value is None else f"{value:,.0f}"


@register.filter
def duration_ms(milliseconds: float | None) -> str:
    """A duration given in milliseconds."""
    return NOTHING if milliseconds is None else duration(milliseconds / THOUSAND)


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
    """A part of the whole, rounded down: 99.998 → 99.99 %, so that 100 % means all."""
    return NOTHING if value is None else percent(math.floor(value * 100 + 1e-9) / 100)


@register.filter
def budget(value: float | None) -> str:
    """What is left of an error budget: 62.5 → 62.5 % left, -215.26 → overspent by 215.26 %."""
    if value is None:
        return NOTHING
    return f"{share(value)} left" if value >= 0 else f"overspent by {percent(-value)}"


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
