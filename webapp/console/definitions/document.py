"""The form of a definitions file (`webapp.console.definitions.apply`): read with words about where it is wrong, and
written.

`${NAME}` in a text is an environment variable, `${NAME:-text}` has a default, and `$${` stands for `${` itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import yaml

from replicator.errors import ConfigurationError

Kind = TypeVar("Kind")
MAX_DOCUMENT_BYTES = 2 * 1024 * 1024
MAX_NAME_LENGTH = 100  # what the columns of the models hold
_VARIABLE = re.compile(r"\$(?:(\$)\{|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})")


class _WithoutAliases(yaml.SafeLoader):
    """A few lines with aliases may stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs have no hints for it
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported", mark)
        return super().compose_node(parent, index)


def parsed(text: str, environ: Mapping[str, str]) -> Any:
    """Parse the YAML and fill in its variables.  ConfigurationError for invalid YAML or a variable that is not set."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ConfigurationError(f"The file has more than {MAX_DOCUMENT_BYTES:,} characters.")
    try:
        return _interpolated(yaml.load(text, _WithoutAliases) or {}, environ)  # noqa: S506 - it is a safe loader
    except yaml.YAMLError as error:
        raise ConfigurationError(f"The file is not YAML: {_where_and_why(error)}") from None
    except RecursionError:
        raise ConfigurationError("The file is nested too deeply.") from None


def _where_and_why(error: yaml.YAMLError) -> str:
    """Without the lines of the file that PyYAML repeats: a password may stand in them (invariant 8)."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return "line unknown: it has a character that YAML does not allow."
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


def literal(value: Any) -> Any:
    """Escape what looks like a variable in texts, so that reading the value gives it back."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [literal(item) for item in value]
    return value


def list_at(item: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """Empty where there is none."""
    return of_kind(item.get(key) or [], list, f"{where}: {key} must be a list.")


def mapping_at(item: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """Empty where there is none."""
    return of_kind(item.get(key) or {}, dict, f"{where}: {key} must be a mapping.")


def settings_at(item: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """A mapping of names to texts and numbers."""
    found = mapping_at(item, key, where)
    for name, value in found.items():
        of_kind(name, str, f"{where}: {key} has the name {name!r}, which is not a string.")
        if isinstance(value, dict | list):
            raise ConfigurationError(f"{where}: {key}.{name} must be a text or a number.")
    return found


def of_kind(value: Any, kind: type[Kind], message: str) -> Kind:
    """The value itself; ConfigurationError with `message` for any other kind."""
    if not isinstance(value, kind):
        raise ConfigurationError(message)
    return value


def named(item: Any, keys: set[str], what: str) -> str:
    """The name of one of a list's items, which may have no other keys than these."""
    if not isinstance(item, Mapping) or not item.get("name"):
        message = f"Every {what} needs a name."
        raise ConfigurationError(message)
    known(item, keys, f"{what} {item['name']}")
    name = str(item["name"])
    if len(name) > MAX_NAME_LENGTH:
        message = f"The name of a {what} has at most {MAX_NAME_LENGTH} characters."
        raise ConfigurationError(message)
    return name


def known(item: Any, keys: set[str], where: str) -> None:
    """ConfigurationError unless it is a mapping with these keys and no others."""
    if not isinstance(item, Mapping):
        message = f"{where} must be a mapping."
        raise ConfigurationError(message)
    if unknown := sorted(map(str, set(item) - keys)):
        message = f"{where}: unknown key {unknown[0]!r}; known keys: {', '.join(sorted(keys))}."
        raise ConfigurationError(message)


def _interpolated(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        text = _VARIABLE.sub(lambda match: _variable(match, environ), value)
        if "\0" in text:
            message = "The file contains a NUL character, which cannot be stored."
            raise ConfigurationError(message)
        return text
    if isinstance(value, Mapping):
        return {key: _interpolated(item, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [_interpolated(item, environ) for item in value]
    return value


def _variable(match: re.Match[str], environ: Mapping[str, str]) -> str:
    escaped, name, default = match.groups()
    if escaped:
        return "${"
    if name in environ:
        return environ[name]
    if default is None:
        message = f"The environment variable {name} is not set."
        raise ConfigurationError(message, remedy=f"export {name}=…, or write ${{{name}:-default}} into the file.")
    return str(default)
