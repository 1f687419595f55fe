"""Types that a history makes itself: enums, domains, composite types, ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.postgres.values.rng_literals import quoted, text
from testing.workload.rng_literals import Pen
from testing.workload.schemas import Statements

_LABELS = ("a", "B", "b", "Long label", "x y", "it's", "com,ma", 'quo"te', "back\\slash", "é", "null", "{b}", "l" * 63)
MULTIRANGES = 14
Named = Callable[[str], str]


class UserTypes:
    """User-defined types of one history.  `kinds`: the present ones; `renewed` gives a column's kind after a change."""

    def __init__(self, pen: Pen, named: Named, version: int, *, zero: bool) -> None:
        """`named` gives names that are free, from a stem."""
        self._pen, self._named, self._version, self._zero = pen, named, version, zero
        self.kinds: list[PostgresKind] = []
        self.created: Statements = ()
        for make in (
            self._enum,
            self._enum,
            self._domain,
            self._domain,
            self._array_domain,
            self._composite,
            self._range,
            self._label_range,
        ):
            if not self.kinds or pen.chance(0.7):
                kind, statement = make()
                self.kinds.append(kind)
                self.created = (*self.created, statement)

    @property
    def enums(self) -> list[PostgresKind]:
        return [kind for kind in self.kinds if kind.name == "enum"]

    def changed(self, old: PostgresKind, new: PostgresKind) -> None:
        """Of now on."""
        self.kinds = [new if kind == old else renewed(kind, new) for kind in self.kinds]

    def _name(self, stem: str) -> str:
        return quoted(self._named(stem))

    def _enum(self) -> tuple[PostgresKind, str]:
        pen, name = self._pen, self._name("mood")
        labels = tuple(pen.sample(_LABELS, pen.randint(2, 6)))
        listed = ", ".join(text(label, pen) for label in labels)
        return PostgresKind("enum", user=name, labels=labels), f"CREATE TYPE {name} AS ENUM ({listed})"

    def _domain(self) -> tuple[PostgresKind, str]:
        pen, name = self._pen, self._name("domain")
        base, check = pen.choice(
            (
                (PostgresKind("integer"), " CHECK (VALUE <> 13)"), (PostgresKind("text"), ""),
                (PostgresKind("numeric", 10, 2), ""),
                (PostgresKind("bigint"), ""),
                (PostgresKind("varchar", 20), " CHECK (VALUE <> 'no')"),
                (PostgresKind("timestamptz", zero=self._zero), ""),
                (PostgresKind("jsonb"), ""), (PostgresKind("boolean"), ""), (self.enums[0], ""),
                (PostgresKind("bytea"), ""),
            )
        )  # fmt: skip
        return PostgresKind("domain", user=name, element=base), f"CREATE DOMAIN {name} AS {base.sql}{check}"

    def _array_domain(self) -> tuple[PostgresKind, str]:
        name = self._name("domain")
        base = PostgresKind(
            "array", element=self._pen.choice((PostgresKind("integer"), PostgresKind("text"), self.enums[0]))
        )
        return PostgresKind("domain", user=name, element=base), f"CREATE DOMAIN {name} AS {base.sql}"

    def _composite(self) -> tuple[PostgresKind, str]:
        name = self._name("pair")
        more = (
            PostgresKind("numeric"),
            PostgresKind("timestamptz"),
            PostgresKind("array", element=PostgresKind("text")),
            PostgresKind("bytea"),
            PostgresKind("date"),
            *self.kinds,
        )
        fields = (PostgresKind("integer"), PostgresKind("text"), *self._pen.sample(more, 2))
        listed = ", ".join(f"{quoted(f'f {at}')} {field.sql}" for at, field in enumerate(fields))
        return PostgresKind("composite", user=name, fields=fields), f"CREATE TYPE {name} AS ({listed})"

    def _range(self) -> tuple[PostgresKind, str]:
        name = self._name("span")
        return PostgresKind("custom range", user=name), f"CREATE TYPE {name} AS RANGE (SUBTYPE = float8)"

    def _label_range(self) -> tuple[PostgresKind, str]:
        """Of an enum, or a multirange of that (14 and later)."""
        name, many, enum = self._name("span"), self._name("spans"), self.enums[0]
        made = f"CREATE TYPE {name} AS RANGE (SUBTYPE = {enum.user}"
        if self._version < MULTIRANGES or self._pen.chance(0.3):
            return PostgresKind("label range", user=name, element=enum), f"{made})"
        return PostgresKind("label multirange", user=many, element=enum), f"{made}, MULTIRANGE_TYPE_NAME = {many})"


def renewed(kind: PostgresKind, new: PostgresKind) -> PostgresKind:
    """The kind where the user's type of that name has become `new`."""
    if kind.user == new.user and kind.name == new.name:
        return new
    element = None if kind.element is None else renewed(kind.element, new)
    return replace(kind, element=element, fields=tuple(renewed(field, new) for field in kind.fields))
