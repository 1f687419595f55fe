"""Datetimes and intervals in Oracle's format models (SQL Language Reference, "Format Models")."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from testing.servers.oracle.engine.errors import OracleError, unsupported

_ELEMENT = re.compile(
    r'"(?P<text>[^"]*)"|(?P<name>SYYYY|YYYY|RRRR|RR|YY|MON|MM|DD|HH24|HH12|HH|MI|SS|X?FF[1-9]?|TZH|TZM|TZR|AM|PM)'
    r"|(?P<sign>[^\w]|[T])",
    re.IGNORECASE,
)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WIDTHS = {"YYYY": 4, "SYYYY": 4, "RRRR": 4, "RR": 2, "YY": 2, "MM": 2, "DD": 2, "HH24": 2, "HH12": 2, "HH": 2, "MI": 2,
          "SS": 2}  # fmt: skip
POSTGRES = {"SYYYY": '" "YYYY', "RRRR": "YYYY", "RR": "YY", "HH": "HH12"}
LONGEST = 40  # digits of a number that is not written with an exponent
DAY = 86_400_000_000_000  # nanoseconds
_SECONDS = re.compile(r"\s*([+-]?)(\d+)\s+(\d+):(\d+):(\d+)(?:\.(\d{1,9}))?\s*")
_MONTHS = re.compile(r"\s*([+-]?)(\d+)-(\d+)\s*")
ZONE = re.compile(r"([+-])(\d\d):(\d\d)")


@lru_cache(maxsize=1000)
def elements(model: str) -> list[tuple[str, str]]:
    """(text | name | sign, what) each; raises OracleError for an element that is not known here."""
    found, at = [], 0
    while at < len(model):
        match = _ELEMENT.match(model, at)
        if match is None:
            raise unsupported(f"format model {model}")
        kind = str(match.lastgroup)
        found.append((kind, match[kind].upper() if kind == "name" else match[kind]))
        at = match.end()
    return found


def offset(zone: str) -> timedelta:
    """Of a zone given as hours and minutes."""
    match = ZONE.fullmatch(zone)
    if match is None:
        if zone.upper() in ("UTC", "GMT"):
            return timedelta()
        raise unsupported(f"time zone region {zone}")
    value = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return -value if match[1] == "-" else value


def shifted(stamp: str, by: timedelta) -> str:
    """A TIMESTAMP's text, later by so much."""
    moved = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC) + by
    return moved.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + stamp[19:]


PATTERNS = {
    "MON": "([A-Za-z]{3})", "TZH": r"([+-]?\d{1,2})", "TZM": r"(\d{1,2})", "AM": "([AaPp][Mm])", "PM": "([AaPp][Mm])",
    "TZR": r"(\S+)",
}  # fmt: skip
FIELDS = {"MM": "month", "DD": "day", "MI": "minute", "SS": "second", "HH": "hour", "HH12": "hour", "HH24": "hour",
          "MON": "month"}  # fmt: skip
SHORT_YEAR, THIS_CENTURY = 2, 50


def parse(text: str, model: str, zone: str = "+00:00") -> tuple[str, str]:
    """A TIMESTAMP's text and a zone.  ORA-01861 where the text is another one than the model says."""
    found, now = _matched(text, model), datetime.now(UTC)
    values = {"year": now.year, "month": now.month, "day": 1, "hour": 0, "minute": 0, "second": 0}
    for what, value in found.items():
        if "YY" in what or what.startswith("RR"):
            if value.startswith("-"):
                raise unsupported("years before Christ")
            short = len(value) <= SHORT_YEAR
            values["year"] = int(value) + (0 if not short else 2000 if int(value) < THIS_CENTURY else 1900)
        elif what in FIELDS:
            values[FIELDS[what]] = MONTHS.index(value.upper()) + 1 if what == "MON" else int(value)
    if half := (found.get("AM") or found.get("PM") or "").upper():
        values["hour"] = values["hour"] % 12 + (12 if half == "PM" else 0)
    try:
        stamp = datetime(**values, tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    except ValueError:
        raise OracleError(1847) from None
    fraction = next((value for what, value in found.items() if "FF" in what), "")
    if hours := found.get("TZH"):
        zone = f"{'-' if hours[0] == '-' else '+'}{abs(int(hours)):02}:{int(found.get('TZM', 0)):02}"
    return f"{stamp}.{fraction.ljust(9, '0')}", found.get("TZR", zone)


def _matched(text: str, model: str) -> dict[str, str]:
    """What stands for each element; a text may end before its model."""
    found, at = {}, 0
    for kind, what in elements(model):
        if kind != "name":
            if kind == "sign" and what == " ":
                at += len(text[at:]) - len(text[at:].lstrip())
            elif text[at : at + len(what)] == what:
                at += len(what)
            elif at < len(text):
                raise OracleError(1861)
            continue
        digits = rf"\s*([+-]?\d{{1,{WIDTHS.get(what, 2)}}})"
        match = re.compile(r"\.?(\d{0,9})" if "FF" in what else PATTERNS.get(what, digits)).match(text, at)
        if match is None:
            if at >= len(text):
                break
            raise OracleError(1861)
        at, found[what] = match.end(), match[1]
    if text[at:].strip():
        raise OracleError(1830)
    return found


def render(stamp: str, model: str, zone: str = "", scale: int = 9) -> str:
    """A TIMESTAMP's text (of a DATE: without fraction) in a model."""
    year, month, day, hour, minute, second = (
        stamp[:4], stamp[5:7], stamp[8:10], stamp[11:13], stamp[14:16], stamp[17:19],
    )  # fmt: skip
    fraction = stamp[20:].ljust(9, "0")
    known = {
        "SYYYY": f" {year}", "YYYY": year, "RRRR": year, "RR": year[2:], "YY": year[2:], "MM": month, "DD": day,
        "HH24": hour, "MI": minute, "SS": second, "MON": MONTHS[int(month) - 1], "TZH": zone[:3], "TZM": zone[4:],
        "TZR": zone, "HH": f"{(int(hour) + 11) % 12 + 1:02}", "HH12": f"{(int(hour) + 11) % 12 + 1:02}",
        "AM": "PM" if hour >= "12" else "AM", "PM": "PM" if hour >= "12" else "AM",
    }  # fmt: skip
    made = ""
    for kind, what in elements(model):
        if kind == "name" and "FF" in what:
            digits = int(what[-1]) if what[-1].isdigit() else scale
            made += ("." if what.startswith("X") else "") + fraction[:digits]
        else:
            made += known[what] if kind == "name" else what
    return made


def seconds(text: str) -> str:
    """TO_DSINTERVAL: nanoseconds."""
    match = _SECONDS.fullmatch(text)
    if match is None:
        raise OracleError(1867)
    value = int(match[2]) * DAY + (int(match[3]) * 3600 + int(match[4]) * 60 + int(match[5])) * 1_000_000_000
    return f"{'-' if match[1] == '-' else ''}{value + int((match[6] or '').ljust(9, '0'))}"


def months(text: str) -> str:
    """TO_YMINTERVAL."""
    match = _MONTHS.fullmatch(text)
    if match is None:
        raise OracleError(1867)
    return f"{'-' if match[1] == '-' else ''}{int(match[2]) * 12 + int(match[3])}"


def interval(text: str, first: str, last: str) -> str:
    """A literal INTERVAL '…' first TO last: nanoseconds, or months where it begins with them."""
    negative, body = text.strip().startswith("-"), text.strip().lstrip("+-")
    sign = "-" if negative else ""
    if first in ("YEAR", "MONTH"):
        years, _, rest = body.partition("-")
        value = int(years) * 12 + int(rest or 0) if first == "YEAR" else int(years)
        return f"{sign}{value}"
    units = ("DAY", "HOUR", "MINUTE", "SECOND")
    sizes = dict(zip(units, (86_400, 3600, 60, 1), strict=True))
    wanted = units[units.index(first) : units.index(last or first) + 1]
    parts = re.split(r"[\s:]+", body)
    if len(parts) != len(wanted):
        raise OracleError(1867)
    total = sum(Decimal(part) * sizes[unit] for part, unit in zip(parts, wanted, strict=True))
    return f"{sign}{int(total * 1_000_000_000)}"


def seconds_text(value: str, digits: int = 2, scale: int = 6) -> str:
    """TO_CHAR of INTERVAL DAY TO SECOND."""
    number = int(Decimal(value))
    days, rest = divmod(abs(number), DAY)
    whole, fraction = divmod(rest, 1_000_000_000)
    tail = f".{fraction:09}"[: scale + 1] if scale else ""
    clock = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{tail}"
    return f"{'-' if number < 0 else '+'}{days:0{digits}} {clock}"


def months_text(value: str, digits: int = 2) -> str:
    """TO_CHAR of INTERVAL YEAR TO MONTH."""
    number = int(Decimal(value))
    return f"{'-' if number < 0 else '+'}{abs(number) // 12:0{digits}}-{abs(number) % 12:02}"


def number_text(value: str) -> str:
    """TO_CHAR of NUMBER without a model: no zero before the point; scientific beyond 40 characters."""
    number = Decimal(value)
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text.lstrip("-").startswith("0."):
        text = text.replace("0.", ".", 1)
    if text in ("", "-"):
        return "0"
    if len(text.lstrip("-")) <= LONGEST:
        return text
    exponent = number.adjusted()
    return f"{number.scaleb(-exponent):.34f}E{exponent:+03}"
