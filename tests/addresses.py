"""Every address that the product answers at, from Django's resolver, with arguments filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver, reverse


class Address(NamedTuple):
    """name: with its namespace, as `reverse` takes it."""

    name: str
    path: str


def addresses(arguments: Mapping[str, object]) -> list[Address]:
    """Of every named pattern; KeyError for one with a parameter that `arguments` do not know.

    arguments: `name.parameter` with * for any letters → value; the first one that fits is taken.
    """
    return [
        Address(name, reverse(name, kwargs={one: _argument(arguments, name, one) for one in parameters}))
        for name, parameters in _named(get_resolver())
    ]


def _named(resolver: URLResolver, space: str = "", outer: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    for one in resolver.url_patterns:
        parameters = (*outer, *one.pattern.regex.groupindex)
        if isinstance(one, URLResolver):
            yield from _named(one, f"{space}{one.namespace}:" if one.namespace else space, parameters)
        elif isinstance(one, URLPattern) and one.name:
            yield f"{space}{one.name}", list(parameters)


def _argument(arguments: Mapping[str, object], name: str, parameter: str) -> object:
    wanted = f"{name}.{parameter}"
    for pattern, value in arguments.items():
        if fnmatchcase(wanted, pattern):
            return value
    raise KeyError(f"{wanted}: a value is missing")
