"""Expressions: from sqlglot's tree to Postgres' text and Oracle's type.  What is not known here is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from testing.servers.oracle.engine import nls
from testing.servers.oracle.engine.ddl.types import kind_of
from testing.servers.oracle.engine.ddl.words import Words
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import (
    DATE,
    DATETIMES,
    INTERVALS,
    LOCAL,
    MONTHS,
    NUMBER,
    NUMBERS,
    ROWID,
    SECONDS,
    TEXT,
    TIMESTAMP,
    ZONED,
    ZONED_TIMESTAMP,
    Kind,
)  # fmt: skip
from testing.servers.oracle.engine.sql.coercions import assigned, compared, padded
from testing.servers.oracle.engine.sql.dialect import PREFIX

COMPARISONS = {exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
PSEUDO_COLUMNS = ("ROWID", "ROWNUM", "LEVEL", "SYSDATE", "USER", "UID")


@dataclass(frozen=True)
class Typed:
    """sql: for Postgres; kind: None of NULL."""

    sql: str
    kind: Kind | None
    literal: str | None = None


@dataclass(frozen=True)
class Relation:
    """Something in FROM.  alias: in Postgres; columns: by Oracle's names; obj: of a table, for its ROWIDs.

    hidden: columns that only their names find, and `*` does not.
    """

    alias: str
    name: str
    columns: Mapping[str, tuple[str, Kind | None]]
    obj: int = 0
    owner: str = ""
    hidden: frozenset[str] = frozenset()


@dataclass
class Scope:
    """What names mean.  level: the column that counts where CONNECT BY LEVEL does."""

    relations: list[Relation] = field(default_factory=list)
    outer: Scope | None = None
    level: str = ""


class Session(Protocol):
    """What expressions ask of a session."""

    user: str
    schema: str
    time_zone: str
    nls: dict[str, str]

    @property
    def in_root(self) -> bool: ...
    def bound(self, place: int) -> Typed: ...
    def parameter(self, value: str | bytes) -> str: ...
    def scn(self) -> int: ...
    def context(self, name: str) -> str | None: ...
    def types(self) -> dict[tuple[str, str], str]: ...
    def sequence(self, owner: str, name: str) -> str: ...


def quoted(text: str) -> str:
    if "\0" in text:
        raise unsupported("a zero character in a string")
    return (
        "'" + text.replace("'", "''") + "'"
        if "\\" not in text
        else "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    )


Nodes = Sequence[exp.Expr]
Function = Callable[["Expressions", Nodes, Scope], Typed]


class Expressions:
    """query: how a subquery is translated; functions, packages: by their names."""

    def __init__(
        self, session: Session, query: Callable[[exp.Expr, Scope], tuple[str, Sequence[Kind | None]]],
        functions: Mapping[str, Function], packages: Mapping[str, Function],
    ) -> None:  # fmt: skip
        self.session, self._query, self._functions, self._packages = session, query, functions, packages

    def of(self, node: exp.Expr, scope: Scope) -> Typed:
        for kind in type(node).__mro__:
            if found := _VISITORS.get(kind):
                made: Typed = getattr(self, found)(node, scope)
                return _condition(f"NOT ({made.sql})") if _negated(node) else made
        raise unsupported(f"{type(node).__name__}: {node.sql('oracle')}")

    def condition(self, node: exp.Expr, scope: Scope) -> str:
        made = self.of(node, scope)
        if made.kind is not None and made.kind.name != "CONDITION":
            raise OracleError(920)
        return made.sql

    def assigned(self, node: exp.Expr, scope: Scope, kind: Kind) -> str:
        """As a column of that kind takes it."""
        made = self.of(node, scope)
        return assigned(made.sql, made.kind, kind, self.session.time_zone)

    def pair(self, left: exp.Expr, right: exp.Expr, scope: Scope) -> tuple[str, str]:
        """Both in a form in which they can be compared."""
        return self.pair_of(self.of(left, scope), self.of(right, scope))

    def pair_of(self, one: Typed, other: Typed) -> tuple[str, str]:
        """A CHAR is compared without its blanks with a literal or another CHAR only."""
        names = [side.kind.name if side.kind else "" for side in (one, other)]
        for at, (own, against) in enumerate(((one, other), (other, one))):
            if (
                names[at] in ("CHAR", "NCHAR")
                and names[1 - at] in ("VARCHAR2", "NVARCHAR2")
                and against.literal is None
            ):
                return (padded(one.sql), other.sql) if own is one else (one.sql, padded(other.sql))
        return (
            compared(one.sql, one.kind, other.kind, self.session.time_zone),
            compared(other.sql, other.kind, one.kind, self.session.time_zone),
        )

    def literal(self, node: exp.Expr, scope: Scope) -> str:
        """Of an argument whose value has to be known before the statement runs."""
        made = self.of(node, scope)
        if made.literal is None:
            raise unsupported(f"an argument that is no literal: {node.sql('oracle')}")
        return made.literal

    # Leaves

    def _literal(self, node: exp.Literal, scope: Scope) -> Typed:
        del scope
        if not node.is_string:
            return Typed(f"{node.name}::numeric", NUMBER, node.name)
        return _text(node.name)

    def _national(self, node: exp.National, scope: Scope) -> Typed:
        del scope
        return Typed(quoted(node.name), Kind("NVARCHAR2", 2000), node.name) if node.name else Typed("NULL", None)

    def _placeholder(self, node: exp.Placeholder, scope: Scope) -> Typed:
        del scope
        return self.session.bound(int(node.name.removeprefix(PREFIX)))

    def _column(self, node: exp.Column, scope: Scope) -> Typed:
        name = node.name if node.this.quoted else node.name.upper()
        table = node.args.get("table")
        plain = table is None and not node.this.quoted
        if plain and name in PSEUDO_COLUMNS and (made := self._pseudo(name, scope)):
            return made
        owner = node.args.get("db")
        prefix = _name(table) if table else ""
        if prefix and not owner and name in ("NEXTVAL", "CURRVAL"):
            return Typed(f"{name.lower()}('{self.session.sequence(self.session.schema, prefix)}')", NUMBER)
        if prefix and f"{prefix}.{name}" in self._packages:
            return self._packages[f"{prefix}.{name}"](self, [], scope)
        level: Scope | None = scope
        while level is not None:
            for one in level.relations:
                if (prefix and prefix != one.name) or (owner and _name(owner) != one.owner):
                    continue
                if name in one.columns:
                    column, kind = one.columns[name]
                    return Typed(f"{one.alias}.{column}", kind)
                if name == "ROWID" and one.obj:
                    return Typed(f"ora.rowid({one.obj}, {one.alias}.ora_rid)", ROWID)
            level = level.outer
        shown = ".".join(f'"{part}"' for part in (prefix, name) if part)
        raise OracleError(904, shown)

    def _pseudo(self, name: str, scope: Scope) -> Typed | None:
        if name == "SYSDATE":
            return Typed("ora.today()", DATE)
        if name == "USER":
            return _text(self.session.user)
        if name == "UID":
            return Typed("1", NUMBER)
        if name == "ROWNUM":
            return Typed("(row_number() OVER ())::numeric", NUMBER)
        if name == "LEVEL":
            if not scope.level:
                raise OracleError(1788)
            return Typed(scope.level, NUMBER)
        return None

    def _now(self, node: exp.CurrentTimestamp, scope: Scope) -> Typed:
        del scope
        if node.args.get("sysdate"):
            return Typed("ora.today()", DATE)
        zone = self.session.time_zone
        return Typed(f"ora.now() || {quoted('|' + zone)}", ZONED_TIMESTAMP)

    def _server_time(self, node: exp.Expr, scope: Scope) -> Typed:
        del node, scope
        return Typed("ora.now() || '|+00:00'", ZONED_TIMESTAMP)

    def _local_time(self, node: exp.Expr, scope: Scope) -> Typed:
        del node, scope
        return Typed(f"ora.shift(ora.now(), {quoted(self.session.time_zone)})", TIMESTAMP)

    def _null(self, node: exp.Expr, scope: Scope) -> Typed:
        del node, scope
        return Typed("NULL", None)

    def _current_user(self, node: exp.Expr, scope: Scope) -> Typed:
        del node, scope
        return _text(self.session.user)

    # Operators

    def _arithmetic(self, node: exp.Binary, scope: Scope) -> Typed:
        left, right = self.of(node.this, scope), self.of(node.expression, scope)
        names = {one.kind.name for one in (left, right) if one.kind}
        if names & DATETIMES or names & INTERVALS:
            return self._date_arithmetic(node, left, right)
        binary = bool(names & {"BINARY_FLOAT", "BINARY_DOUBLE"})
        kind = Kind("BINARY_DOUBLE") if binary else NUMBER
        a, b = (assigned(one.sql, one.kind, kind, "") for one in (left, right))
        if isinstance(node, exp.Div):
            return Typed(f"({a} / {b})" if binary else f"ora.div({a}, {b})", kind)
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        return Typed(f"({a} {sign} {b})", kind)

    def _date_arithmetic(self, node: exp.Binary, left: Typed, right: Typed) -> Typed:
        if isinstance(node, exp.Sub) and left.kind == right.kind == DATE:
            return Typed(f"(extract(epoch FROM {left.sql} - {right.sql}) / 86400)", NUMBER)
        if right.kind is None or left.kind is None or not isinstance(node, exp.Add | exp.Sub):
            raise unsupported(node.sql("oracle"))
        sign = "+" if isinstance(node, exp.Add) else "-"
        if {left.kind.name, right.kind.name} <= INTERVALS and left.kind.name == right.kind.name:
            return Typed(f"({left.sql} {sign} {right.sql})", left.kind)
        if right.kind.name == "NUMBER" and left.kind.name == "DATE":
            return Typed(f"date_trunc('second', {left.sql} {sign} {right.sql} * interval '1 day')", DATE)
        if right.kind.name in INTERVALS and left.kind.name in DATETIMES:
            unit = "1 month" if right.kind.name == MONTHS else "1 microsecond"
            amount = right.sql if right.kind.name == MONTHS else f"({right.sql} / 1000)"
            by = f"{sign if sign == '-' else ''}({amount}) * interval '{unit}'"
            if left.kind.name == "DATE":
                return Typed(f"date_trunc('second', {left.sql} + {by})", DATE)
            return Typed(f"ora.shift({left.sql}, {by})", left.kind)
        raise unsupported(node.sql("oracle"))

    def _negative(self, node: exp.Neg, scope: Scope) -> Typed:
        inner = self.of(node.this, scope)
        return Typed(f"(-{inner.sql})", inner.kind or NUMBER, inner.literal and f"-{inner.literal}")

    def _joined(self, node: exp.DPipe, scope: Scope) -> Typed:
        parts = [self.assigned(one, scope, TEXT) for one in (node.this, node.expression)]
        return Typed(f"ora.cat({parts[0]}, {parts[1]})", TEXT)

    def _parenthesis(self, node: exp.Paren, scope: Scope) -> Typed:
        inner = self.of(node.this, scope)
        return Typed(f"({inner.sql})", inner.kind, inner.literal)

    # Conditions

    def _comparison(self, node: exp.Binary, scope: Scope) -> Typed:
        if isinstance(node.this, exp.Tuple):
            left, right = self._tuples(node.this, node.expression, scope)
        else:
            left, right = self.pair(node.this, node.expression, scope)
        return _condition(f"{left} {COMPARISONS[type(node)]} {right}")

    def _tuples(self, left: exp.Tuple, right: exp.Expr, scope: Scope) -> tuple[str, str]:
        values = right.this if isinstance(right, exp.Paren) else right
        if not isinstance(values, exp.Tuple) or len(values.expressions) != len(left.expressions):
            raise unsupported(right.sql("oracle"))
        pairs = [self.pair(a, b, scope) for a, b in zip(left.expressions, values.expressions, strict=True)]
        return tuple("(" + ", ".join(side) + ")" for side in zip(*pairs, strict=True))  # type: ignore[return-value]

    def _logic(self, node: exp.Binary, scope: Scope) -> Typed:
        word = "AND" if isinstance(node, exp.And) else "OR"
        parts = [self.condition(one, scope) for one in node.flatten()]
        return _condition("(" + f" {word} ".join(parts) + ")")

    def _negation(self, node: exp.Not, scope: Scope) -> Typed:
        return _condition(f"NOT ({self.condition(node.this, scope)})")

    def _is(self, node: exp.Is, scope: Scope) -> Typed:
        if not isinstance(node.expression, exp.Null):
            raise unsupported(node.sql("oracle"))
        return _condition(f"{self.of(node.this, scope).sql} IS NULL")

    def _in(self, node: exp.In, scope: Scope) -> Typed:
        if query := node.args.get("query"):
            sql, kinds = self._query(query, scope)
            own = [
                self.of(one, scope)
                for one in (node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this])
            ]
            columns = [f"q{at}" for at in range(1, len(kinds) + 1)]
            pairs = [self.pair_of(a, Typed(f"i.{b}", k)) for a, b, k in zip(own, columns, kinds, strict=True)]
            left, right = (", ".join(side) for side in zip(*pairs, strict=True))
            return _condition(f"({left}) IN (SELECT {right} FROM ({sql}) AS i)")
        choices = []
        for one in node.expressions:
            left, right = (
                self._tuples(node.this, one, scope)
                if isinstance(node.this, exp.Tuple)
                else self.pair(node.this, one, scope)
            )
            choices.append(f"{left} = {right}")
        return _condition("(" + " OR ".join(choices) + ")")

    def _between(self, node: exp.Between, scope: Scope) -> Typed:
        low = self.pair(node.this, node.args["low"], scope)
        high = self.pair(node.this, node.args["high"], scope)
        return _condition(f"({low[0]} >= {low[1]} AND {high[0]} <= {high[1]})")

    def _like(self, node: exp.Like, scope: Scope) -> Typed:
        left, right = (self.assigned(one, scope, TEXT) for one in (node.this, node.expression))
        return _condition(f"{left} LIKE {right} ESCAPE ''")

    def _escape(self, node: exp.Escape, scope: Scope) -> Typed:
        inner = node.this
        if not isinstance(inner, exp.Like):
            raise unsupported(node.sql("oracle"))
        left, right = (self.assigned(one, scope, TEXT) for one in (inner.this, inner.expression))
        return _condition(f"{left} LIKE {right} ESCAPE {quoted(self.literal(node.expression, scope))}")

    def _exists(self, node: exp.Exists, scope: Scope) -> Typed:
        return _condition(f"EXISTS ({self._query(node.this, scope)[0]})")

    # Others

    def _subquery(self, node: exp.Expr, scope: Scope) -> Typed:
        sql, kinds = self._query(node, scope)
        if len(kinds) != 1:
            raise OracleError(913)
        return Typed(f"({sql})", kinds[0])

    def _case(self, node: exp.Case, scope: Scope) -> Typed:
        conditions, results = [], []
        for one in node.args["ifs"]:
            if node.this is not None:
                left, right = self.pair(node.this, one.this, scope)
                conditions.append(f"{left} = {right}")
            else:
                conditions.append(self.condition(one.this, scope))
            results.append(self.of(one.args["true"], scope))
        if default := node.args.get("default"):
            results.append(self.of(default, scope))
        kind = next((one.kind for one in results if one.kind), None)
        texts = [assigned(one.sql, one.kind, kind, self.session.time_zone) if kind else one.sql for one in results]
        whens = " ".join(f"WHEN {a} THEN {b}" for a, b in zip(conditions, texts, strict=False))
        tail = f" ELSE {texts[-1]}" if node.args.get("default") else ""
        return Typed(f"(CASE {whens}{tail} END)", kind)

    def _cast(self, node: exp.Cast, scope: Scope) -> Typed:
        kind = kind_of(Words(node.args["to"].sql("oracle")), self.session.types(), self.session.schema)
        sql = self.assigned(node.this, scope, kind)
        if kind.name == "NUMBER" and kind.precision:
            sql = f"({sql})::numeric({kind.precision}, {kind.scale or 0})"
        elif kind.name in ("TIMESTAMP", LOCAL):
            sql = f"ora.ts_round({sql}, {kind.scale})"
        elif kind.length:
            sql = f"left({sql}, {kind.length})"
        return Typed(sql, kind)

    def _interval(self, node: exp.Interval, scope: Scope) -> Typed:
        unit = node.args["unit"]
        first, last = (unit.this, unit.expression) if isinstance(unit, exp.IntervalSpan) else (unit, None)
        words = [one.name.upper() if one is not None else "" for one in (first, last)]
        value = nls.interval(self.literal(node.this, scope), words[0], words[1])
        name = MONTHS if words[0] in ("YEAR", "MONTH") else SECONDS
        return Typed(
            f"{value}::numeric" if value[0] != "-" else f"({value})::numeric", Kind(name, precision=2, scale=6)
        )

    def _function(self, node: exp.Anonymous, scope: Scope) -> Typed:
        name = str(node.this).upper()
        if name not in self._functions:
            raise OracleError(904, f'"{name}"')
        return self._functions[name](self, node.expressions, scope)

    def _package(self, node: exp.Dot, scope: Scope) -> Typed:
        inner = node.expression
        name = (
            f"{_name(node.this)}.{str(inner.this).upper() if isinstance(inner, exp.Anonymous) else inner.name.upper()}"
        )
        if name not in self._packages:
            raise OracleError(904, f'"{name}"')
        return self._packages[name](self, inner.expressions, scope)

    def _trim(self, node: exp.Trim, scope: Scope) -> Typed:
        where = node.args.get("position") or "BOTH"
        characters = self.assigned(node.expression, scope, TEXT) if node.expression else "' '"
        return Typed(f"nullif(trim({where} {characters} FROM {self.assigned(node.this, scope, TEXT)}), '')", TEXT)

    def _extract(self, node: exp.Extract, scope: Scope) -> Typed:
        value = self.of(node.expression, scope)
        if value.kind is None or value.kind.name not in ("DATE", "TIMESTAMP"):
            raise unsupported(node.sql("oracle"))
        stamp = value.sql if value.kind.name == "DATE" else f"ora.ts_date({value.sql})"
        return Typed(f"extract({node.name.upper()} FROM {stamp})", NUMBER)

    def _zone(self, node: exp.AtTimeZone, scope: Scope) -> Typed:
        value, zone = self.of(node.this, scope), self.literal(node.args["zone"], scope)
        if value.kind is None or value.kind.name != ZONED:
            raise unsupported(node.sql("oracle"))
        zone = "+00:00" if zone.upper() in ("UTC", "GMT") else zone
        return Typed(f"split_part({value.sql}, '|', 1) || {quoted('|' + zone)}", value.kind)

    def _window(self, node: exp.Window, scope: Scope) -> Typed:
        inner = self.of(node.this, scope)
        parts = [self.of(one, scope).sql for one in node.args.get("partition_by") or ()]
        order = self.order(node.args.get("order"), scope)
        partition = f"PARTITION BY {', '.join(parts)} " if parts else ""
        return Typed(f"{inner.sql} OVER ({partition}{order})", inner.kind)

    def _listed(self, node: exp.GroupConcat, scope: Scope) -> Typed:
        inner = node.this.this if isinstance(node.this, exp.Order) else node.this
        order = self.order(node.this, scope) if isinstance(node.this, exp.Order) else ""
        separator = node.args.get("separator")
        between = self.assigned(separator, scope, TEXT) if separator else "''"
        return Typed(f"string_agg({self.assigned(inner, scope, TEXT)}, {between} {order})", TEXT)

    def order(self, node: exp.Expr | None, scope: Scope, names: dict[str, int] | None = None) -> str:
        """ORDER BY; names: places of the result's columns by their names."""
        if node is None:
            return ""
        made = []
        for one in node.expressions:
            inner = one.this
            name = inner.name if isinstance(inner, exp.Column) and not inner.table else ""
            name = name if name and inner.this.quoted else name.upper()
            place = inner.name if isinstance(inner, exp.Literal) and not inner.is_string else None
            key = place or (str(names[name]) if names and name in names else self.of(inner, scope).sql)
            made.append(f"{key} {'DESC' if one.args.get('desc') else 'ASC'} "
                        f"NULLS {'FIRST' if one.args.get('nulls_first') else 'LAST'}")  # fmt: skip
        return "ORDER BY " + ", ".join(made)


def _text(value: str) -> Typed:
    """A string; an empty one is NULL."""
    return Typed(quoted(value), Kind("VARCHAR2", max(len(value.encode()), 1)), value) if value else Typed("NULL", None)


def _negated(node: exp.Expr) -> bool:
    """X NOT LIKE, NOT IN, NOT BETWEEN; the first has its ESCAPE around it."""
    inner = node.this if isinstance(node, exp.Escape) else node
    return isinstance(inner, exp.Expr) and bool(inner.args.get("negate"))


def _condition(sql: str) -> Typed:
    return Typed(sql, Kind("CONDITION"))


def _name(node: exp.Expr) -> str:
    return node.name if node.args.get("quoted") else node.name.upper()


_VISITORS: dict[type, str] = {
    exp.Literal: "_literal", exp.National: "_national", exp.Placeholder: "_placeholder",
    exp.Column: "_column", exp.CurrentTimestamp: "_now",
    exp.Systimestamp: "_server_time",
    exp.Localtimestamp: "_local_time",
    exp.Null: "_null", exp.CurrentUser: "_current_user",
    exp.Add: "_arithmetic", exp.Sub: "_arithmetic", exp.Mul: "_arithmetic",
    exp.Div: "_arithmetic", exp.Neg: "_negative", exp.DPipe: "_joined",
    exp.Paren: "_parenthesis", exp.And: "_logic", exp.Or: "_logic",
    exp.Not: "_negation", exp.Is: "_is", exp.In: "_in",
    exp.Between: "_between", exp.Like: "_like", exp.Escape: "_escape",
    exp.Exists: "_exists", exp.Subquery: "_subquery", exp.Select: "_subquery",
    exp.Case: "_case", exp.Cast: "_cast", exp.Interval: "_interval",
    exp.Anonymous: "_function", exp.Dot: "_package", exp.Trim: "_trim",
    exp.Extract: "_extract", exp.AtTimeZone: "_zone", exp.Window: "_window",
    exp.GroupConcat: "_listed", **dict.fromkeys(COMPARISONS, "_comparison"),
}  # fmt: skip
assert NUMBERS
