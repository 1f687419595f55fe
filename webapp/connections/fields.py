"""What a plugin's form makes of the values that were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replicator.errors import ConfigurationError
from replicator.sources.base import FormField

MAX_LENGTH = {"number": 20, "password": 10_000, "textarea": 500_000}  # a bundle of authorities has 200,000
MAX_TEXT = 2000
LINES = dict.fromkeys(map(ord, "\r\n\t"), " ")


@dataclass(frozen=True)
class Stored:
    """Settings as they are stored: for what the public ones say, and for nothing else, the secret ones were entered
    (invariant 8).
    """

    public: Mapping[str, Any] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)


def split(
    form: Sequence[FormField], config: Mapping[str, Any], stored: Stored | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Public values and secrets; numbers become int; absent values take the default, absent secrets what is stored.

    ConfigurationError for what is wrong or missing, and for a stored secret that would be sent elsewhere or otherwise
    than it was entered for: it must be given again.
    """
    if unknown := sorted(set(config) - {field.name for field in form}):
        message = f"Unknown setting {unknown[0]!r}; known settings: {', '.join(field.name for field in form)}."
        raise ConfigurationError(message)
    stored = stored or Stored()
    public = {
        one.name: _public(one, config.get(one.name), meant=one.meant(form, config)) for one in form if not one.secret
    }
    moved = [one.label for one in form if one.name in public and _moves(one, public, stored)]
    secret: dict[str, str] = {}
    for one in form:
        if not one.secret:
            continue
        kept, given = stored.secret.get(one.name, ""), _text(one, config.get(one.name))
        if moved and kept and not given:
            raise ConfigurationError(
                f"{one.label} must be entered again, because {moved[0]} was changed. A stored secret is only sent to"
                " the address for which it was entered.",
                remedy=f"Send {one.label} together with the changed settings.",
            )
        text = given or kept or one.default
        _check(one, text, meant=one.meant(form, config))
        secret |= {one.name: text} if text else {}
    return public, secret


def _public(one: FormField, value: Any, *, meant: bool) -> Any:
    text = _text(one, value) or one.default
    _check(one, text, meant=meant)
    return _number(one, text) if one.kind == "number" and text else text


def _text(one: FormField, value: Any) -> str:
    """ConfigurationError for what no database would take and no driver send."""
    if not isinstance(value, str | int | float | None):
        raise ConfigurationError(f"{one.label} must be a text or a number.")
    text = "" if value is None else str(value)
    if len(text) > (longest := MAX_LENGTH.get(one.kind, MAX_TEXT)):
        raise ConfigurationError(f"{one.label} has more than {longest:,} characters.")
    if one.kind == "textarea":
        text = text.rstrip("\0")  # MySQL 8.0 ends the ca.pem that it makes so
    plain = text.translate(LINES) if one.kind == "textarea" else text
    if not (plain if one.secret else plain.strip()).isprintable():
        raise ConfigurationError(f"{one.label} contains an invalid character.")
    return text


def _check(one: FormField, text: str, *, meant: bool) -> None:
    if one.required and meant and not text:
        raise ConfigurationError(f"{one.label} is missing.", remedy=one.help or None)
    if one.choices and text and text not in {choice for choice, _ in one.choices}:
        raise ConfigurationError(f"{one.label} must be one of {', '.join(c for c, _ in one.choices)}.")


def _moves(one: FormField, public: Mapping[str, Any], stored: Stored) -> bool:
    return not one.keeps_secret and str(public[one.name]) != str(stored.public.get(one.name, one.default))


def _number(one: FormField, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{one.label} must be a whole number, not {text!r}.") from None
