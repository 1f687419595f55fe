"""One statement of T-SQL as Postgres' SQL: names as they are spelled, types of `ss`, functions with the same effect.

Anything unknown is refused, even if sqlglot could translate it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from testing.servers.sqlserver.language import captured, functions
from testing.servers.sqlserver.language.dialect import Language, quoted, text_literal
from testing.servers.sqlserver.language.names import ColumnName, Names, TableName
from testing.servers.sqlserver.language.pieces import hints, like, method, parsed, spell, static
from testing.servers.sqlserver.refusals import Refusal, unknown

KNOWN = frozenset({
    "Select", "From", "Join", "Where", "Group", "Having", "Order", "Ordered", "Limit", "Fetch", "Offset", "Subquery",
    "Union", "Except", "Intersect", "With", "CTE", "TableAlias", "Table", "Identifier", "Column", "Star", "Literal",
    "Null",
    "Alias", "Paren", "And", "Or", "Not", "EQ", "NEQ", "GT", "GTE", "LT", "LTE", "In", "Between", "Like", "ILike",
    "Is", "Exists",
    "Case", "If", "Cast", "TryCast", "Convert", "Anonymous", "Window", "WindowSpec", "Tuple", "Values", "Insert",
    "Update",
    "Delete", "Merge", "When", "Whens", "Returning", "Schema", "Neg", "Add", "Sub", "Mul", "Div", "Mod", "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor", "BitwiseNot", "Collate", "National", "HexString", "Parameter", "Var", "DataType", "Distinct",
    "Lateral", "Dot",
    "ScopeResolution", "WithTableHint", "QueryOption", "Escape", "LimitOptions", "SessionParameter", "WithinGroup",
    "DataTypeParam", "AtTimeZone",
})  # fmt: skip
_TOP = re.compile(r"\A\s*(DELETE|UPDATE)\s+TOP\s*\(\s*(\d+)\s*\)\s*(FROM\s+)?", re.IGNORECASE)
_TARGET = "tidemark_target"
_SIGNS = re.compile(r"(\[@?\w+\]|@@?\w+|\w+)\s*([-+*/%&|^])=")
BASE_KINDS = (exp.Select, exp.Union, exp.Except, exp.Intersect, exp.Subquery)


@dataclass
class Translated:
    """`sql` has parameters $1…, the values of `variables`.  `assigned`: variables that the row's values go to.

    `tables`: those that are read or written, with their hints.  `writes`: the table that is changed.
    """

    sql: str
    variables: list[str]
    assigned: list[str]
    tables: list[tuple[TableName, frozenset[str]]]
    writes: TableName | None
    verb: str
    rows: bool


@dataclass
class Translator:
    """variables: names with @, in small letters, to types."""

    names: Names
    variables: Mapping[str, str]
    _order: list[str] = field(default_factory=list)
    _tables: list[tuple[TableName, frozenset[str]]] = field(default_factory=list)
    _aliases: dict[str, tuple[str, TableName | None]] = field(default_factory=dict)
    _spelled: dict[str, str] = field(default_factory=dict)
    _columns: dict[int, ColumnName] = field(default_factory=dict)

    def statement(self, sql: str, *, identity_insert: str = "") -> Translated:
        """Refusal for what is wrong or not known."""
        top = 0
        if match := _TOP.match(sql):
            top, sql = int(match[2]), f"{match[1]} {match[3] or ''}{sql[match.end() :]}"
        sql = captured.spelled(sql)
        tree = parsed(_SIGNS.sub(r"\1 = \1 \2 ", sql) if sql.lstrip()[:6].upper() == "UPDATE" else sql)
        writes = self._prepare(tree)
        if isinstance(tree, exp.Insert):
            self._insert(tree, writes, identity_insert)
        elif isinstance(tree, exp.Update | exp.Delete):
            self._joined(tree, writes, top)
        assigned = self._assigned(tree)
        rows = isinstance(tree, BASE_KINDS) or bool(tree.args.get("returning"))
        if isinstance(tree, exp.Select) and not assigned:
            self._named(tree)
        return Translated(
            spell(tree), self._order, assigned, self._tables, writes, type(tree).__name__.lower(), rows
        )  # fmt: skip

    def expression(self, sql: str, table: TableName | None = None) -> str:
        """Of a default, a check, a computed column or a variable."""
        tree = parsed(f"SELECT {sql}")
        if table is not None:
            self._aliases[table.name.lower()] = (table.name, table)
            self._spelled |= {low: one.name for low, one in table.columns.items()}
        self._prepare(tree)
        for column in tree.find_all(exp.Column):
            column.set("table", None)
        return spell(tree).removeprefix("SELECT ")

    # What every statement needs

    def _prepare(self, tree: exp.Expr) -> TableName | None:
        for node in tree.walk():
            if type(node).__name__ not in KNOWN:
                raise unknown(f"{type(node).__name__} in {node.sql(dialect=Language)[:80]}")
            if any(
                node.args.get(name) for name in ("for_", "sample", "pivots", "match", "locks", "system_time", "when")
            ):
                raise unknown(node.sql(dialect=Language)[:120])
        tree.set("options", None)
        writes = self._find_tables(tree)
        self._parts(tree)
        self._resolve(tree)
        self._parameters(tree)
        for node in reversed(list(tree.walk())):
            self._replace(node)
        return writes

    def _find_tables(self, tree: exp.Expr) -> TableName | None:
        common = {one.alias.lower(): one.alias for one in tree.find_all(exp.CTE)}
        for cte in tree.find_all(exp.CTE):
            cte.args["alias"].set("this", exp.to_identifier(cte.alias, quoted=True))
        if with_ := tree.args.get("with_"):
            with_.args["recursive"] = True
        writes = None
        for table in list(tree.find_all(exp.Table)):
            if isinstance(table.this, exp.Anonymous):
                self._function_table(table)
                continue
            if not table.db and table.name.lower() in common:
                name = common[table.name.lower()]
                table.set("this", exp.to_identifier(name, quoted=True))
                self._alias(table, table.alias or name, None)
                continue
            target = self._is_target(tree, table)
            if target and not table.db and isinstance(tree, exp.Update | exp.Delete) and self._aliased(tree, table):
                continue
            found = self.names.table(table.catalog, table.db, table.name)
            given = frozenset(hints(table))
            self._tables.append((found, given))
            alias = table.alias or table.name
            table.set("catalog", None)
            table.set("db", exp.to_identifier(found.schema, quoted=True))
            table.set("this", exp.to_identifier(found.name, quoted=True))
            table.set("hints", None)
            if target:
                writes = found
            if not (target and isinstance(tree, exp.Insert)):
                self._alias(table, alias, found)
            else:
                self._spelled.update({low: one.name for low, one in found.columns.items()})
        if isinstance(tree, exp.Update | exp.Delete) and writes is None:
            writes = self._target_of(tree)
        for one in tree.find_all(exp.Subquery, exp.Values, exp.Lateral):
            if one.alias:
                self._alias(one, one.alias, None)
        return writes

    def _is_target(self, tree: exp.Expr, table: exp.Table) -> bool:
        if isinstance(tree, exp.Insert):
            return table is tree.this or table is tree.this.this
        if isinstance(tree, exp.Delete) and tree.args.get("tables"):
            return any(table is one for one in tree.args["tables"])
        return isinstance(tree, exp.Update | exp.Delete | exp.Merge) and table is tree.this

    def _aliased(self, tree: exp.Expr, target: exp.Table) -> bool:
        """Does the target's name mean a table of the FROM clause?"""
        return any(
            (one.alias or one.name).lower() == target.name.lower()
            for one in tree.find_all(exp.Table)
            if one is not target and not self._is_target(tree, one)
        )

    def _target_of(self, tree: exp.Expr) -> TableName:
        target = tree.args["tables"][0] if tree.args.get("tables") else tree.this
        _, found = self._aliases.get(target.name.lower(), ("", None))
        if found is None:
            raise Refusal(208, f"Invalid object name '{target.name}'.")
        return found

    def _alias(self, node: exp.Expr, alias: str, found: TableName | None) -> None:
        kept = node.args.get("alias")
        columns = kept.args.get("columns") if isinstance(kept, exp.TableAlias) else None
        for one in columns or ():
            one.replace(exp.to_identifier(self._spelled.setdefault(one.name.lower(), one.name), quoted=True))
        columns = node.args["alias"].args.get("columns") if isinstance(kept, exp.TableAlias) else None
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
        self._aliases[alias.lower()] = (alias, found)
        if found is not None:
            for low, one in found.columns.items():
                self._spelled.setdefault(low, one.name)

    def _function_table(self, table: exp.Table) -> None:
        name, schema = table.this.name, table.db.lower()
        arguments = table.this.expressions
        match = functions.ALL_CHANGES.fullmatch(name) or functions.NET_CHANGES.fullmatch(name)
        if (schema == "cdc" and match) or name.lower() == captured.CHANGETABLE:
            if match:
                found, inner = captured.changes(self.names, match[1], net="net" in name.lower())
            else:
                found, inner = captured.tracked(self.names, arguments.pop(0).name)
            self._spelled.update({low: one.name for low, one in found.columns.items()})
            if match and len(arguments) != 3:
                raise Refusal(
                    313, f"An insufficient number of arguments were supplied for the procedure or function cdc.{name}."
                )
            body: exp.Expr = exp.Anonymous(this=inner, expressions=[one.copy() for one in arguments])
            table.set("db", None)
            table.set("this", body)
            self._alias(table, table.alias or name, found)
            return
        if schema in ("", "sys") and name.lower() in functions.TABLES:
            table.set("db", exp.to_identifier("sys", quoted=True) if schema else None)
            table.set("this", exp.Anonymous(this=name.lower(), expressions=arguments))
            alias = table.alias or name
            if name.lower() == "generate_series":
                table.set("alias", exp.TableAlias(this=exp.to_identifier(alias), columns=[exp.to_identifier("value")]))
                self._spelled["value"] = "value"
            else:
                self._spelled |= {one: one for one in ("log_end_lsn", "database_id", "recovery_vlf_count", "text")}
            self._alias(table, alias, None)
            return
        raise unknown(f"the table function {schema}.{name}")

    def _parts(self, tree: exp.Expr) -> None:
        for call in tree.find_all(exp.Anonymous):
            if call.name.lower() in functions.PARTED and call.expressions:
                part = call.expressions[0].name.lower()
                call.expressions[0].replace(exp.Var(this=f"'{functions.PARTS.get(part, part)}'"))

    def _resolve(self, tree: exp.Expr) -> None:  # noqa: C901
        inner = [one for one in tree.find_all(exp.Alias) if one.find_ancestor(exp.Subquery, exp.CTE, exp.Lateral)]
        for alias in inner:
            name = self._spelled.setdefault(alias.alias.lower(), alias.alias)
            alias.set("alias", exp.to_identifier(name, quoted=True))
        own = (
            {one.alias.lower(): one.alias for one in tree.expressions if isinstance(one, exp.Alias)}
            if isinstance(tree, exp.Select)
            else {}
        )
        for one in tree.expressions if isinstance(tree, exp.Select) else ():
            if isinstance(one, exp.Alias):
                one.set("alias", exp.to_identifier(one.alias, quoted=True))
        for dot in list(tree.find_all(exp.Dot)):
            if isinstance(dot.this, exp.Identifier) and dot.this.name.lower() not in ("sys", "dbo"):
                dot.set("this", exp.Column(this=dot.this.copy()))
        for column in list(tree.find_all(exp.Column)):
            self._column(column, own)
        for schema in tree.find_all(exp.Schema):
            for one in schema.expressions:
                one.replace(exp.to_identifier(self._known(one.name), quoted=True))
        if isinstance(tree, exp.Merge):
            for insert in tree.find_all(exp.Insert):
                if isinstance(insert.this, exp.Tuple):
                    for one in insert.this.expressions:
                        one.set("table", None)

    def _column(self, column: exp.Column, own: Mapping[str, str]) -> None:  # noqa: C901, PLR0912
        name, low = column.name, column.name.lower()
        star = isinstance(column.this, exp.Star)
        if low == "0x":  # no bytes
            column.replace(exp.Var(this="'\\x'::ss.varbinary(1)"))
            return
        if not column.table and not column.this.args.get("quoted"):
            if low == "default":
                column.replace(exp.Var(this="DEFAULT"))
                return
            if low in functions.WITHOUT_PARENTHESES:
                column.replace(exp.Var(this=functions.WITHOUT_PARENTHESES[low]))
                return
        if column.table:
            alias, table = self._aliases.get(column.table.lower(), (None, None))
            if alias is None and column.table.lower() in ("inserted", "deleted"):
                column.set("table", None)
            elif alias is None:
                raise Refusal(4104, f'The multi-part identifier "{column.table}.{name}" could not be bound.')
            else:
                for part in ("db", "catalog"):
                    column.set(part, None)
                column.set("table", exp.to_identifier(alias, quoted=True))
            if table is not None and not star:
                found = table.columns.get(low)
                if found is None:
                    raise Refusal(207, f"Invalid column name '{name}'.")
                column.set("this", exp.to_identifier(found.name, quoted=True))
                self._columns[id(column)] = found
                return
        if star:
            return
        if low in own and column.find_ancestor(exp.Order):
            column.set("this", exp.to_identifier(own[low], quoted=True))
            return
        column.set("this", exp.to_identifier(self._known(name), quoted=True))
        tables = [one for one, _ in self._tables if low in one.columns]
        if len(tables) == 1:
            self._columns[id(column)] = tables[0].columns[low]

    def _known(self, name: str) -> str:
        if (found := self._spelled.get(name.lower())) is None:
            raise Refusal(207, f"Invalid column name '{name}'.")
        return found

    def _parameters(self, tree: exp.Expr) -> None:
        for one in list(tree.find_all(exp.Parameter)):
            if isinstance(one.parent, exp.Parameter):
                continue
            name = "@" + one.name.lower() if not isinstance(one.this, exp.Parameter) else "@@" + one.this.name.lower()
            if (
                isinstance(one.parent, exp.EQ)
                and isinstance(one.parent.parent, exp.Select)
                and one is one.parent.this
                and one.parent.arg_key == "expressions"
            ):
                continue
            one.replace(exp.Var(this=self.placeholder(name)))

    def placeholder(self, name: str) -> str:
        """A variable's value in SQL; Refusal 137."""
        kind = self.variables.get(name)
        if kind is None:
            raise Refusal(137, f'Must declare the scalar variable "{name}".', 15)
        if name not in self._order:
            self._order.append(name)
        return f"${self._order.index(name) + 1}::{kind}"

    # What is written another way

    def _replace(self, node: exp.Expr) -> None:  # noqa: C901, PLR0912
        if isinstance(node, exp.Literal):
            if node.is_string:
                node.replace(exp.Var(this=text_literal(node.this, "varchar" if node.this.isascii() else "nvarchar")))
            elif "e" in node.this.lower():
                node.replace(exp.Var(this=f"'{node.this}'::float8"))
        elif isinstance(node, exp.National):
            node.replace(exp.Var(this=text_literal(node.this)))
        elif isinstance(node, exp.HexString):
            digits = node.this if len(node.this) % 2 == 0 else f"0{node.this}"
            size = f"({len(digits) // 2})" if 0 < len(digits) <= 16000 else ""
            node.replace(exp.Var(this=f"'\\x{digits}'::ss.varbinary{size}"))
        elif isinstance(node, exp.Convert):
            node.replace(
                self._cast(node.expression, node.this, node.args.get("style"), safe=bool(node.args.get("safe")))
            )
        elif isinstance(node, exp.TryCast) or (isinstance(node, exp.Cast) and node.args.get("safe")):
            raise unknown("TRY_CAST")
        elif isinstance(node, exp.Cast):
            node.replace(self._cast(node.this, node.args["to"]))
        elif isinstance(node, exp.Collate):
            name = node.expression.name
            node.set(
                "expression",
                exp.Var(
                    this="ss." + quoted(name if name.lower() != "database_default" else "SQL_Latin1_General_CP1_CI_AS")
                ),
            )
        elif isinstance(node, exp.Like):
            node.replace(like(node))
        elif isinstance(node, exp.AtTimeZone):
            node.replace(
                exp.Anonymous(this="ss.at_time_zone", expressions=[node.this.copy(), node.args["zone"].copy()])
            )
        elif isinstance(node, exp.Dot):
            node.replace(method(node))
        elif isinstance(node, exp.ScopeResolution):
            node.replace(static(node))
        elif isinstance(node, exp.Anonymous):
            self._function(node)
        elif (
            isinstance(node, exp.Limit | exp.Fetch)
            and (options := node.args.get("limit_options"))
            and (options.args.get("percent") or options.args.get("with_ties"))
        ):
            raise unknown("TOP … PERCENT or WITH TIES")

    def _cast(self, value: exp.Expr, kind: exp.Expr, style: exp.Expr | None = None, *, safe: bool = False) -> exp.Expr:
        if safe:
            raise unknown("TRY_CONVERT")
        type_ = kind.args["kind"]
        is_text = type_.removeprefix("ss.").split("(")[0].strip('"') in functions.TEXTS
        known = self._columns.get(id(value))
        if is_text and known is not None and known.kind in ("datetime2", "time", "datetimeoffset") and style is None:
            style = exp.Literal.number(121)
        if style is not None and is_text:
            arguments = [value.copy(), style.copy()]
            if known is not None and known.kind in ("datetime2", "time", "datetimeoffset"):
                arguments.append(exp.Literal.number(known.modifier - 5 if known.modifier > 0 else 7))
            value = exp.Anonymous(this="ss.style", expressions=arguments)
        elif style is not None and type_.startswith(("ss.varbinary", 'ss."varbinary"', 'ss."binary"')):
            value = exp.Anonymous(this="ss.unhex", expressions=[value.copy(), style.copy()])
        return exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_))

    def _function(self, call: exp.Anonymous) -> None:
        name = call.name.lower()
        if name.startswith(("ss.", "sys.")) or isinstance(call.parent, exp.Table | exp.Dot | exp.ScopeResolution):
            return
        if name == "iif":
            test, yes, no = call.expressions
            call.replace(exp.Case(ifs=[exp.If(this=test.copy(), true=yes.copy())], default=no.copy()))
            return
        if name == "choose" or (name == "string_agg" and isinstance(call.parent, exp.WithinGroup)):
            raise unknown(name)
        mapped = functions.PARTED.get(name) or functions.postgres_function(name)
        if mapped is None:
            raise Refusal(195, f"The emulator does not know the function '{call.name}'.", 15)
        call.set("this", mapped)
        if name in functions.ONCE and call.find_ancestor(exp.Select) and not call.find(exp.Column):
            call.replace(exp.Subquery(this=exp.Select(expressions=[call.copy()])))  # else Postgres asks for each row

    def _insert(self, tree: exp.Insert, writes: TableName | None, identity_insert: str) -> None:
        assert writes is not None
        if not isinstance(tree.this, exp.Schema) and not tree.args.get("default"):
            columns = [
                one for one in writes.columns.values() if not (one.identity or one.computed or one.kind == "rowversion")
            ]
            listed = [exp.to_identifier(one.name, quoted=True) for one in columns]
            tree.set("this", exp.Schema(this=tree.this.copy(), expressions=listed))
        if isinstance(tree.this, exp.Schema):
            given = {one.name for one in tree.this.expressions}
            identity = next((one.name for one in writes.columns.values() if one.identity), None)
            if identity in given and identity_insert.lower() != writes.sql.lower():
                raise Refusal(
                    544, f"Cannot insert explicit value for identity column in table '{writes.name}' when"
                        " IDENTITY_INSERT"
                    " is set to OFF.",
                )  # fmt: skip
            for one in writes.columns.values():
                if one.name in given and (one.computed or one.kind == "rowversion"):
                    raise Refusal(
                        271,
                        f'The column "{one.name}" cannot be modified because it is a computed column or a timestamp.',
                    )

    def _joined(self, tree: exp.Update | exp.Delete, writes: TableName | None, top: int) -> None:
        """T-SQL's FROM names the target again; Postgres' does not: they meet by the row's place."""
        assert writes is not None
        for one in tree.expressions if isinstance(tree, exp.Update) else ():
            column = one.this
            known = writes.columns.get(column.name.lower())
            if known is None:
                raise Refusal(207, f"Invalid column name '{column.name}'.")
            if known.identity:
                raise Refusal(8102, f"Cannot update identity column '{known.name}'.")
            column.replace(exp.Column(this=exp.to_identifier(known.name, quoted=True)))
        where = tree.args.get("where")
        condition = where.this.copy() if where else None
        alias = (
            tree.args["tables"][0].name
            if isinstance(tree, exp.Delete) and tree.args.get("tables")
            else tree.this.alias or tree.this.name
        )
        sources = tree.args.get("from_") if isinstance(tree, exp.Update) else tree.args.get("tables")
        if top:
            if sources:
                raise unknown("UPDATE or DELETE with TOP and FROM")
            table = exp.to_table(writes.sql, dialect="postgres").as_(alias, quoted=True)
            chosen = exp.select("ctid").from_(table).limit(top)
            chosen = chosen.where(condition) if condition is not None else chosen
            tree.set("where", exp.Where(this=exp.In(this=exp.column("ctid"), query=chosen.subquery())))
            return
        if not sources:
            return
        name = self._aliases[alias.lower()][0]
        meeting: exp.Expr = exp.Var(this=f'"{_TARGET}".ctid = {quoted(name)}.ctid')
        condition = meeting if condition is None else exp.And(this=meeting, expression=exp.paren(condition))
        target = f'{writes.sql} AS "{_TARGET}"'
        tree.set("where", exp.Where(this=condition))
        if isinstance(tree, exp.Update):
            tree.set("this", exp.Var(this=target))
        else:
            source = tree.this.copy()
            tree.set("tables", None)
            tree.set("this", exp.Var(this=target))
            tree.set("using", [source])

    def _assigned(self, tree: exp.Expr) -> list[str]:
        found: list[str] = []
        if not isinstance(tree, exp.Select):
            return found
        for one in list(tree.expressions):
            if isinstance(one, exp.EQ) and isinstance(one.this, exp.Parameter):
                name = "@" + one.this.name.lower()
                if name not in self.variables:
                    raise Refusal(137, f'Must declare the scalar variable "{name}".', 15)
                found.append(name)
                kind = exp.DataType(this=exp.DType.USERDEFINED, kind=self.variables[name])
                one.replace(exp.Cast(this=one.expression.copy(), to=kind))
        if found and len(found) != len(tree.expressions):
            raise Refusal(
                141,
                "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval"
                " operations.",
                15,
            )
        return found

    def _named(self, tree: exp.Select) -> None:
        """A column without a name has none."""
        for one in list(tree.expressions):
            if not isinstance(one, exp.Alias | exp.Column | exp.Star):
                one.replace(exp.alias_(one.copy(), "?column?", quoted=True))
