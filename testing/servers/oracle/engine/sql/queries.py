"""Statements: from sqlglot's tree to Postgres' text, with names found in the catalog and rights checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from testing.servers.oracle.engine import nls
from testing.servers.oracle.engine.catalog import Catalog, Table, User
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import LOCAL, Kind
from testing.servers.oracle.engine.sql.expressions import Expressions, Relation, Scope, Session
from testing.servers.oracle.engine.sql.functions import FUNCTIONS, PACKAGES
from testing.servers.oracle.engine.views.view import View

# What of a version of a row was committed at an SCN.
AS_OF = (
    "SELECT h.* FROM {history} h JOIN ora.commits f ON f.xid = h.v_from AND f.scn <= {scn}"
    " LEFT JOIN ora.commits t ON t.xid = h.v_to AND t.scn <= {scn} WHERE t.xid IS NULL"
)
_SELECT = {"with_", "kind", "hint", "distinct", "expressions", "limit", "operation_modifiers", "from_", "joins",
           "where", "connect", "group", "having", "order", "offset", "locks"}  # fmt: skip


@dataclass(frozen=True)
class Translated:
    """columns: of a result, by name and type (None: of Postgres' choice); target: the table that changes."""

    sql: str
    columns: tuple[tuple[str, Kind | None], ...] = ()
    target: Table | None = None
    tables: tuple[Table, ...] = ()


class Queries:
    """Of one statement.

    view      rows of a dictionary view that the user may read; None for what is none
    flashback the SCN of an AS OF clause checked: may the user, and is it still known
    """

    def __init__(
        self, catalog: Catalog, user: User, session: Session, view: Callable[[str], View | None],
        flashback: Callable[[exp.Version, Table, Expressions], int],
    ) -> None:  # fmt: skip
        self._catalog, self._user, self._session = catalog, user, session
        self._view, self._flashback = view, flashback
        self._expressions = Expressions(session, self._subquery, FUNCTIONS, PACKAGES)
        self._aliases = 0
        self._views: dict[str, View] = {}
        self._tables: list[Table] = []
        self._named: list[dict[str, Relation]] = []

    @property
    def expressions(self) -> Expressions:
        return self._expressions

    def translated(self, tree: exp.Expr) -> Translated:
        if isinstance(tree, exp.Query):
            sql, columns = self._query(tree, Scope())
            return Translated(self._filled(self._local(sql, columns)), tuple(columns), tables=tuple(self._tables))
        match tree:
            case exp.Insert():
                table, sql = self._insert(tree)
            case exp.Update():
                table, sql = self._update(tree)
            case exp.Delete():
                table, sql = self._delete(tree)
            case exp.Merge():
                table, sql = self._merge(tree)
            case exp.MultitableInserts():
                table, sql = self._insert_all(tree)
            case _:
                raise OracleError(900)
        return Translated(self._filled(sql), target=table, tables=tuple(self._tables))

    def _filled(self, sql: str) -> str:
        """The rows of views in their places, as far as their columns occur."""
        for alias, view in self._views.items():
            used = {*re.findall(rf"\b{alias}\.(n\d+)\b", sql)}
            columns = [(name, at, kind) for name, (at, kind) in view.relation.items() if at in used]
            columns = columns or [(name, at, kind) for name, (at, kind) in view.relation.items()][:1]
            rows = view.rows([name for name, _, _ in columns])
            places = [at for _, at, _ in columns]
            text = json.dumps([dict(zip(places, row, strict=True)) for row in rows], ensure_ascii=False)
            fields = ", ".join(f"{at} {kind.postgres}" for _, at, kind in columns)
            source = f"(SELECT * FROM json_to_recordset({self._session.parameter(text)}::json) AS v({fields}))"
            sql = sql.replace(f"{{{alias}}} AS {alias}", f"{source} AS {alias}")
        return sql

    def _local(self, sql: str, columns: Sequence[tuple[str, Kind | None]]) -> str:
        """The result as the client gets it: WITH LOCAL TIME ZONE in the session's zone."""
        if not any(kind and kind.name == LOCAL for _, kind in columns):
            return sql
        zone = f"interval '{int(nls.offset(self._session.time_zone).total_seconds())} seconds'"
        cells = [
            f"ora.shift(q{at}, {zone}) AS q{at}" if kind and kind.name == LOCAL else f"q{at}"
            for at, (_, kind) in enumerate(columns, 1)
        ]
        return f"SELECT {', '.join(cells)} FROM ({sql}) AS shown"

    # Queries

    def _subquery(self, node: exp.Expr, scope: Scope) -> tuple[str, Sequence[Kind | None]]:
        sql, columns = self._query(node, Scope(outer=scope))
        return sql, [kind for _, kind in columns]

    def _query(self, node: exp.Expr, scope: Scope) -> tuple[str, list[tuple[str, Kind | None]]]:
        """Columns are called q1, q2 … in Postgres."""
        if isinstance(node, exp.Subquery) and not node.alias:
            return self._query(node.this, scope)
        common = self._common(node, scope)
        if isinstance(node, exp.SetOperation):
            sql, columns = self._combined(node, scope)
        elif isinstance(node, exp.Select):
            sql, columns = self._select(node, scope)
        else:
            raise unsupported(node.sql("oracle"))
        if common:
            self._named.pop()
        return common + sql, columns

    def _common(self, node: exp.Expr, scope: Scope) -> str:
        found = node.args.get("with_")
        if not found:
            return ""
        made: list[str] = []
        known: dict[str, Relation] = {}
        self._named.append(known)
        for one in found.expressions:
            sql, columns = self._query(one.this, Scope(outer=scope.outer))
            alias = self._alias()
            given = [_name(column) for column in one.args["alias"].args.get("columns") or ()]
            names = given or [name for name, _ in columns]
            kinds = {name: (f"q{at}", kind) for at, (name, (_, kind)) in enumerate(zip(names, columns, strict=True), 1)}
            known[_name(one.args["alias"].this)] = Relation(alias, "", kinds)
            made.append(f"{alias} AS ({sql})")
        return f"WITH {', '.join(made)} "

    def _combined(self, node: exp.SetOperation, scope: Scope) -> tuple[str, list[tuple[str, Kind | None]]]:
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(node)]
        word += "" if node.args.get("distinct") else " ALL"
        left, columns = self._query(node.this, Scope(outer=scope.outer))
        right, others = self._query(node.expression, Scope(outer=scope.outer))
        if len(columns) != len(others):
            raise OracleError(1789)
        merged = [(name, kind or other) for (name, kind), (_, other) in zip(columns, others, strict=True)]
        left, right = (_known(sql, kinds, merged) for sql, kinds in ((left, columns), (right, others)))
        places = {name: at for at, (name, _) in enumerate(columns, 1)}
        order = self._expressions.order(node.args.get("order"), Scope(), places)
        return f"({left}) {word} ({right}) {order}", merged

    def _select(self, node: exp.Select, scope: Scope) -> tuple[str, list[tuple[str, Kind | None]]]:
        if unknown := [one for one, value in node.args.items() if value and one not in _SELECT]:
            raise unsupported(f"{unknown[0]} in {node.sql('oracle')}")
        if not node.args.get("from_"):
            raise OracleError(923)
        sources = [self._source(node.args["from_"].this, scope)]
        sources += [self._join(join, scope) for join in node.args.get("joins") or ()]
        if connect := node.args.get("connect"):
            scope.level = "l.level"
            sources.append(f" CROSS JOIN generate_series(1, {self._levels(connect, scope)}) AS l(level)")
        limit, where = self._rownum(node, scope)
        made, columns = self._results(node, scope)
        sql = f"SELECT {'DISTINCT ' if node.args.get('distinct') else ''}{', '.join(made)} FROM {''.join(sources)}"
        sql += f" WHERE {where}" if where else ""
        if group := node.args.get("group"):
            sql += " GROUP BY " + ", ".join(self._expressions.of(one, scope).sql for one in group.expressions)
        if having := node.args.get("having"):
            sql += f" HAVING {self._expressions.condition(having.this, scope)}"
        return sql + self._tail(node, scope, limit), columns

    def _tail(self, node: exp.Select, scope: Scope, limit: str) -> str:
        """ORDER BY, the row limiting clause, FOR UPDATE."""
        sql = ""
        aliases = ((at, one) for at, one in enumerate(node.expressions, 1) if isinstance(one, exp.Alias))
        names = {_name(one.args["alias"]): at for at, one in aliases}
        if order := node.args.get("order"):
            sql += " " + self._expressions.order(order, scope, names)
        if offset := node.args.get("offset"):
            sql += f" OFFSET ({self._expressions.of(offset.expression, scope).sql})::bigint"
        if fetch := node.args.get("limit"):
            options = fetch.args.get("limit_options")
            more = options and (options.args.get("percent") or options.args.get("with_ties"))
            if not isinstance(fetch, exp.Fetch) or more:
                raise unsupported(fetch.sql("oracle"))
            count = fetch.args.get("count")
            limit = f"({self._expressions.of(count, scope).sql})::bigint" if count is not None else "1"
        sql += f" LIMIT {limit}" if limit else ""
        for lock in node.args.get("locks") or ():
            wait = lock.args.get("wait")
            sql += " FOR UPDATE" + (" NOWAIT" if wait is True else " SKIP LOCKED" if wait is False else "")
        return sql

    def _results(self, node: exp.Select, scope: Scope) -> tuple[list[str], list[tuple[str, Kind | None]]]:
        made: list[str] = []
        columns: list[tuple[str, Kind | None]] = []
        for one in node.expressions:
            inner = one.this if isinstance(one, exp.Alias) else one
            star = isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star))
            if star:
                wanted = _name(inner.args["table"]) if isinstance(inner, exp.Column) else ""
                for relation in scope.relations:
                    if wanted in ("", relation.name):
                        for name, (column, kind) in relation.columns.items():
                            if name in relation.hidden:
                                continue
                            columns.append((name, kind))
                            made.append(f"{relation.alias}.{column} AS q{len(columns)}")
                continue
            value = self._expressions.of(inner, scope)
            if value.kind and value.kind.name == "CONDITION":
                raise OracleError(923)
            name = _name(one.args["alias"]) if isinstance(one, exp.Alias) else _shown(inner)
            columns.append((name, value.kind))
            made.append(f"{value.sql} AS q{len(columns)}")
        return made, columns

    def _rownum(self, node: exp.Select, scope: Scope) -> tuple[str, str]:
        """LIMIT and WHERE: the condition ROWNUM <= n is the former."""
        if not (where := node.args.get("where")):
            return "", ""
        limit, rest = "", []
        for one in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
            left = getattr(one, "this", None)
            if isinstance(left, exp.Column) and left.name.upper() == "ROWNUM" and not left.this.quoted:
                value = self._expressions.of(one.expression, scope).sql
                less = " - 1" if isinstance(one, exp.LT) else ""
                if not isinstance(one, exp.LTE | exp.LT | exp.EQ) or (
                    isinstance(one, exp.EQ) and value != "1::numeric"
                ):
                    raise unsupported(one.sql("oracle"))
                limit = f"(({value})::bigint{less})"
            else:
                rest.append(self._expressions.condition(one, scope))
        return limit, " AND ".join(rest)

    def _levels(self, connect: exp.Connect, scope: Scope) -> str:
        condition = connect.args["connect"]
        if connect.args.get("start") or not isinstance(condition, exp.LTE) or condition.this.name.upper() != "LEVEL":
            raise unsupported("CONNECT BY of other than LEVEL")
        return f"({self._expressions.of(condition.expression, scope).sql})::int"

    # What stands in FROM

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def _join(self, join: exp.Join, scope: Scope) -> str:
        if join.args.get("using") or join.args.get("method"):
            raise unsupported(join.sql("oracle"))
        source = self._source(join.this, scope)
        side, kind, on = (join.args.get(one) for one in ("side", "kind", "on"))
        if on is None:
            return f" CROSS JOIN {source}"
        return f" {side or ''} {kind or ''} JOIN {source} ON {self._expressions.condition(on, scope)}"

    def _source(self, node: exp.Expr, scope: Scope) -> str:
        alias, given = self._alias(), node.args.get("alias")
        if any(node.args.get(one) for one in ("sample", "partition", "pivots", "catalog")):
            raise unsupported(node.sql("oracle"))
        if isinstance(node, exp.Subquery):
            sql, columns = self._query(node.this, Scope(outer=scope.outer))
            kinds = {name: (f"q{at}", kind) for at, (name, kind) in enumerate(columns, 1)}
            scope.relations.append(Relation(alias, _name(given.this) if given else "", kinds))
            return f"({sql}) AS {alias}"
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise unsupported(node.sql("oracle"))
        owner, name = _name(node.args["db"]) if node.args.get("db") else "", _name(node.this)
        shown = _name(given.this) if given else name
        if not owner:
            for known in reversed(self._named):
                if name in known:
                    scope.relations.append(Relation(alias, shown, known[name].columns))
                    return f"{known[name].alias} AS {alias}"
        return self._named_source(node, owner, name, Relation(alias, shown, {}), scope)

    def _named_source(self, node: exp.Table, owner: str, name: str, made: Relation, scope: Scope) -> str:
        named = (owner or self._session.schema, name)
        table = None if self._session.in_root else self._catalog.tables.get(named)
        if table is None:
            if owner in ("", "SYS") and name == "DUAL":
                scope.relations.append(Relation(made.alias, made.name, {"DUMMY": ("dummy", Kind("VARCHAR2", 1))}))
                return f"(SELECT 'X'::text AS dummy) AS {made.alias}"
            if owner in ("", "SYS") and (view := self._view(name)):
                scope.relations.append(Relation(made.alias, made.name, view.relation))
                self._views[made.alias] = view
                return f"{{{made.alias}}} AS {made.alias}"
            raise OracleError(942)
        self._catalog.check(self._user, table, "SELECT")
        self._tables.append(table)
        scope.relations.append(relation_of(table, made.alias, made.name))
        if version := node.args.get("version"):
            scn = self._flashback(version, table, self._expressions)
            return f"({AS_OF.format(history=table.history, scn=scn)}) AS {made.alias}"
        return f"{table.rows} AS {made.alias}"

    # Changes

    def _target(self, node: exp.Expr, privilege: str) -> tuple[Table, str, Scope]:
        if not isinstance(node, exp.Table) or node.args.get("partition"):
            raise unsupported(node.sql("oracle"))
        owner = _name(node.args["db"]) if node.args.get("db") else self._session.schema
        table = self._catalog.table(owner, _name(node.this))
        self._catalog.check(self._user, table, privilege)
        alias, given = self._alias(), node.args.get("alias")
        shown = _name(given.this) if given else table.name
        relation = relation_of(table, alias, shown)
        self._tables.append(table)
        return table, alias, Scope([relation])

    def _insert(self, node: exp.Insert) -> tuple[Table, str]:
        if node.args.get("returning"):
            raise unsupported("RETURNING")
        where = node.this
        names = [_name(one) for one in where.expressions] if isinstance(where, exp.Schema) else []
        table, alias, _ = self._target(where.this if isinstance(where, exp.Schema) else where, "INSERT")
        del alias
        columns = [table.column(one) for one in names] or [one for one in table.columns if not one.hidden]
        target = f"{table.rows} ({', '.join(f'c{one.id}' for one in columns)})"
        source = node.expression
        if isinstance(source, exp.Values):
            rows = []
            for row in source.expressions:
                values = row.expressions if isinstance(row, exp.Tuple) else [row]
                if len(values) != len(columns):
                    raise OracleError(947 if len(values) < len(columns) else 913)
                cells = [
                    "DEFAULT" if _default(value) else self._expressions.assigned(value, Scope(), column.kind)
                    for value, column in zip(values, columns, strict=True)
                ]
                rows.append(f"({', '.join(cells)})")
            return table, f"INSERT INTO {target} VALUES {', '.join(rows)}"
        sql, found = self._query(source, Scope())
        if len(found) != len(columns):
            raise OracleError(947 if len(found) < len(columns) else 913)
        zone = self._session.time_zone
        cells = [_assigned(f"s.q{at}", kind, column.kind, zone)
                 for at, ((_, kind), column) in enumerate(zip(found, columns, strict=True), 1)]  # fmt: skip
        return table, f"INSERT INTO {target} SELECT {', '.join(cells)} FROM ({sql}) AS s"

    def _insert_all(self, node: exp.MultitableInserts) -> tuple[Table, str]:
        """INSERT ALL, of rows of one table and the same columns."""
        parts, heads = [], set()
        source = node.args.get("source")
        if source is None or source.sql("oracle").upper() != "SELECT * FROM DUAL":
            raise unsupported(node.sql("oracle"))
        for one in node.expressions:
            if one.expression:
                raise unsupported("INSERT ALL with conditions")
            table, sql = self._insert(one.this)
            head, _, values = sql.partition(" VALUES ")
            heads.add(head)
            parts.append(values)
        if len(heads) != 1:
            raise unsupported("INSERT ALL into several tables")
        return table, f"{heads.pop()} VALUES {', '.join(parts)}"

    def _sets(self, table: Table, nodes: Sequence[exp.Expr], scope: Scope) -> str:
        made = []
        for one in nodes:
            if not isinstance(one, exp.EQ):
                raise unsupported(one.sql("oracle"))
            if isinstance(one.this, exp.Tuple | exp.Paren):
                targets = one.this.expressions if isinstance(one.this, exp.Tuple) else [one.this.this]
                columns = [table.column(_column(target)) for target in targets]
                sql, kinds = self._subquery(one.expression, scope)
                cells = [_assigned(f"s.q{at}", kind, column.kind, self._session.time_zone)
                         for at, (kind, column) in enumerate(zip(kinds, columns, strict=True), 1)]  # fmt: skip
                names = ", ".join(f"c{column.id}" for column in columns)
                made.append(f"({names}) = (SELECT {', '.join(cells)} FROM ({sql}) AS s)")
                continue
            column = table.column(_column(one.this))
            value = (
                "DEFAULT"
                if _default(one.expression)
                else self._expressions.assigned(one.expression, scope, column.kind)
            )
            made.append(f"c{column.id} = {value}")
        return ", ".join(made)

    def _update(self, node: exp.Update) -> tuple[Table, str]:
        table, alias, scope = self._target(node.this, "UPDATE")
        sql = f"UPDATE {table.rows} AS {alias} SET {self._sets(table, node.expressions, scope)}"
        return table, sql + self._where(node, table, alias, scope)

    def _delete(self, node: exp.Delete) -> tuple[Table, str]:
        target = node.this or (node.args.get("tables") or [None])[0]
        table, alias, scope = self._target(target, "DELETE")
        return table, f"DELETE FROM {table.rows} AS {alias}" + self._where(node, table, alias, scope)

    def _where(self, node: exp.Expr, table: Table, alias: str, scope: Scope) -> str:
        where = node.args.get("where")
        if not where:
            return ""
        limit, rest = self._rownum(node, scope)  # type: ignore[arg-type]
        if not limit:
            return f" WHERE {rest}"
        inner = f"SELECT ora_rid FROM {table.rows} AS {alias}" + (f" WHERE {rest}" if rest else "")
        return f" WHERE {alias}.ora_rid IN ({inner} LIMIT {limit})"

    def _merge(self, node: exp.Merge) -> tuple[Table, str]:
        table, alias, scope = self._target(node.this, "INSERT")
        source = self._source(node.args["using"], scope)
        both = Scope(scope.relations)
        on = node.args["on"]
        sql = f"MERGE INTO {table.rows} AS {alias} USING {source} ON {self._expressions.condition(on, both)}"
        for when in node.args["whens"].expressions:
            then, condition = when.args["then"], when.args.get("condition")
            sql += f" WHEN {'MATCHED' if when.args['matched'] else 'NOT MATCHED'}"
            sql += f" AND {self._expressions.condition(condition, both)}" if condition else ""
            if isinstance(then, exp.Update):
                self._catalog.check(self._user, table, "UPDATE")
                sql += f" THEN UPDATE SET {self._sets(table, then.expressions, both)}"
            elif isinstance(then, exp.Insert):
                columns = [table.column(_column(one)) for one in then.this.expressions]
                cells = [self._expressions.assigned(one, both, column.kind)
                         for one, column in zip(then.expression.expressions, columns, strict=True)]  # fmt: skip
                sql += f" THEN INSERT ({', '.join(f'c{one.id}' for one in columns)}) VALUES ({', '.join(cells)})"
            else:
                raise unsupported(when.sql("oracle"))
        return table, sql


def _known(sql: str, own: Sequence[tuple[str, Kind | None]], merged: Sequence[tuple[str, Kind | None]]) -> str:
    """A branch of UNION whose columns of nothing but NULL have the type of the others."""
    if all(one[1] or not other[1] for one, other in zip(own, merged, strict=True)):
        return sql
    cells = [
        f"q{at}::{kind.postgres} AS q{at}" if kind and not one[1] else f"q{at}"
        for at, (one, (_, kind)) in enumerate(zip(own, merged, strict=True), 1)
    ]
    return f"SELECT {', '.join(cells)} FROM ({sql}) AS u"


def relation_of(table: Table, alias: str, name: str) -> Relation:
    columns = {one.name: (f"c{one.id}", one.kind) for one in table.columns}
    hidden = frozenset(one.name for one in table.columns if one.hidden)
    return Relation(alias, name, columns, table.obj, table.owner, hidden)


def _assigned(sql: str, given: Kind | None, wanted: Kind, zone: str) -> str:
    from testing.servers.oracle.engine.sql.coercions import assigned

    return assigned(sql if given else f"{sql}::{wanted.postgres}", given, wanted, zone)


def _default(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var | exp.Column) and node.name.upper() == "DEFAULT"


def _column(node: exp.Expr) -> str:
    return _name(node.this) if isinstance(node, exp.Column) else _name(node)


def _name(node: exp.Expr) -> str:
    return node.name if node.args.get("quoted") else node.name.upper()


def _shown(node: exp.Expr) -> str:
    """What Oracle calls a column of an expression: its text without blanks, in upper case."""
    if isinstance(node, exp.Column):
        return _name(node.this)
    return node.sql("oracle").replace(" ", "").upper()[:128]
