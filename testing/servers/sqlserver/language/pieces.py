"""Pieces of T-SQL's syntax trees, as Postgres has them."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from testing.servers.sqlserver.language import functions
from testing.servers.sqlserver.language.dialect import Language
from testing.servers.sqlserver.refusals import Refusal, unknown


def parsed(sql: str) -> exp.Expr:
    try:
        found = [one for one in sqlglot.parse(sql, read=Language) if one is not None]
    except (SqlglotError, RecursionError) as error:
        raise Refusal(
            102, f"Incorrect syntax, or not known to the emulator: {' '.join(str(error).split())[:200]}", 15
        ) from None
    if len(found) != 1 or isinstance(found[0], exp.Command):
        raise unknown(sql[:120])
    return found[0]


def spell(tree: exp.Expr) -> str:
    return tree.sql(
        dialect="postgres", normalize_functions=False, unsupported_level=sqlglot.ErrorLevel.RAISE, comments=False
    )


def hints(table: exp.Table) -> list[str]:
    found = []
    for hint in table.args.get("hints") or ():
        found += [one.name.upper() for one in hint.expressions]
    return found


def like(node: exp.Like) -> exp.Expr:
    pattern = node.expression
    if isinstance(pattern, exp.Escape):
        raise unknown("LIKE … ESCAPE")
    text = exp.Cast(this=node.this.copy(), to=exp.DataType(this=exp.DType.USERDEFINED, kind="pg_catalog.text"))
    collated = exp.Collate(this=exp.paren(text), expression=exp.Var(this='"C"'))
    return exp.ILike(this=collated, expression=exp.Anonymous(this="ss.pattern", expressions=[pattern.copy()]))


def method(dot: exp.Dot) -> exp.Expr:
    """schema.function(…), or value.Method()."""
    call = dot.expression
    if not isinstance(call, exp.Anonymous):
        raise unknown(dot.sql(dialect=Language)[:80])
    name = call.name.lower()
    if isinstance(dot.this, exp.Identifier | exp.Column) and dot.this.name.lower() in ("sys", "dbo"):
        if (kind := functions.SIZED.get(name)) is None:
            raise Refusal(
                4121,
                f'Cannot find either column "sys" or the user-defined function or aggregate "sys.{name}", or the name'
                " is ambiguous.",
            )
        made = exp.Anonymous(this=f"sys.{name}", expressions=[one.copy() for one in call.expressions])
        return exp.Cast(this=made, to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))
    if name in ("tostring", "stastext", "stasbinary"):
        return exp.Anonymous(this=f"ss.{name}", expressions=[dot.this.copy()])
    raise unknown(f"the method {call.name}")


def static(node: exp.ScopeResolution) -> exp.Expr:
    """type::Function(…)."""
    name = f"{node.this.name}_{node.expression.name}".lower()
    if name not in ("geography_point", "geometry_point", "hierarchyid_parse", "hierarchyid_getroot"):
        raise unknown(f"{node.this.name}::{node.expression.name}")
    return exp.Anonymous(this=f"ss.{name}", expressions=[one.copy() for one in node.expression.expressions])
