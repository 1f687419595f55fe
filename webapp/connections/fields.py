"""What a plugin's form makes of the values that were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replicator.errors import ConfigurationError
from replicator.sources.base import FormField


def split(
    form: Sequence[FormField], config: Mapping[str, Any], stored: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Public values and secrets; numbers become int; absent values take the default."""
    if unknown := sorted(set(config) - {field.name for field in form}):
        message = f"There is no setting {unknown[0]!r}; there are: {', '.join(field.name for field in form)}."
        raise ConfigurationError(message)
    public: dict[str, Any] = {}
    secret: dict[str, str] = {}
    for field in form:
        value = config.get(field.name)
        if field.secret:
            text = str(value or stored.get(field.name, "") or field.default)
            secret |= {field.name: text} if text else {}
        else:
            text = str(field.default if value in {None, ""} else value)
            public[field.name] = _number(field, text) if field.kind == "number" and text else text
        if field.required and not text:
            raise ConfigurationError(f"{field.label} is missing.", remedy=field.help or None)
        if field.choices and text and text not in {choice for choice, _ in field.choices}:
            raise ConfigurationError(f"{field.label} must be one of {', '.join(c for c, _ in field.choices)}.")
    return public, secret


def _number(field: FormField, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"{field.label} must be a whole number, not {text!r}.") from None
