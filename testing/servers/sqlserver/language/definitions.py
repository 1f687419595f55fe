"""CREATE TABLE, ALTER TABLE and CREATE INDEX as Postgres takes them; what it has no room for goes into comments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from testing.servers.sqlserver.language import alias_types
from testing.servers.sqlserver.language.batch import word
from testing.servers.sqlserver.language.dialect import postgres_type, quoted
from testing.servers.sqlserver.language.names import ColumnName, Names, TableName
from testing.servers.sqlserver.language.translation import Translator
from testing.servers.sqlserver.refusals import Refusal, unknown

DEFAULT_COLLATION = "SQL_Latin1_General_CP1_CI_AS"
MAX_NAME = 63
ENDS = (TokenType.COMMA, TokenType.R_PAREN)
_TEXTS = (
    "ss.varchar", "ss.nvarchar", 'ss."varchar"', 'ss."nvarchar"', 'ss."char"', 'ss."nchar"', "ss.text", "ss.ntext",
)  # fmt: skip


@dataclass
class ColumnDraft:
    """`type` is empty for a computed column."""

    name: str
    type: str = ""
    nullable: bool | None = None
    default: str = ""
    default_name: str = ""
    generated: str = ""
    identity: str = ""
    collation: str = ""
    flags: dict[str, object] = field(default_factory=dict)
    constraints: list[str] = field(default_factory=list)

    def declared(self) -> str:
        """As Postgres takes it."""
        parts = [quoted(self.name), self.type]
        if self.collation:
            parts.append(f"COLLATE ss.{quoted(self.collation)}")
        if self.generated:
            parts.append(f"GENERATED ALWAYS AS ({self.generated}) STORED")
        if self.identity:
            parts.append(self.identity)
        if self.nullable is False or self.identity:
            parts.append("NOT NULL")
        if self.default:
            parts.append(f"DEFAULT ({self.default})")
        return " ".join([*parts, *self.constraints])


class Cursor:
    """Tokens of a definition, one after another."""

    def __init__(self, sql: str, found: Sequence[Token]) -> None:
        self.sql, self.tokens, self.at = sql, found, 0
        self.base = found[0].start if found else 0

    @property
    def more(self) -> bool:
        return self.at < len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return word(self.tokens[at]) if at < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """These words, if they come next."""
        if all(self.word(ahead) == one for ahead, one in enumerate(words)):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            raise unknown(f"{' '.join(one.text for one in self.tokens[self.at : self.at + 4])} in a definition")

    def name(self) -> str:
        """An identifier, checked against what Postgres can keep."""
        if not self.more:
            raise Refusal(102, "Incorrect syntax near the end.", 15)
        found = self.tokens[self.at].text
        self.at += 1
        if len(found.encode()) > MAX_NAME:
            raise Refusal(
                103,
                f"The identifier that starts with '{found[:20]}' is too long for the emulator, which keeps 63 bytes.",
                15,
            )
        return found

    def names(self) -> list[str]:
        """With dots between."""
        found = [self.name()]
        while self.more and self.tokens[self.at].token_type == TokenType.DOT:
            self.at += 1
            found.append(self.name())
        return found

    def wrapped(self) -> str:
        """What stands in parentheses, as it was written."""
        if not self.more or self.tokens[self.at].token_type != TokenType.L_PAREN:
            raise Refusal(102, "Incorrect syntax: a parenthesis is missing.", 15)
        first, depth = self.at, 0
        while self.more:
            token = self.tokens[self.at]
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            self.at += 1
            if depth == 0:
                return self.text(first + 1, self.at - 1)
        raise Refusal(102, "Incorrect syntax: a parenthesis is missing.", 15)

    def text(self, first: int, end: int) -> str:
        return self.sql[self.tokens[first].start - self.base : self.tokens[end - 1].end + 1 - self.base]

    def type(self) -> str:
        """A column's, as Postgres has it."""
        parts = self.names()
        arguments = []
        if self.more and self.tokens[self.at].token_type == TokenType.L_PAREN:
            arguments = [one.strip() for one in self.wrapped().split(",")]
        return postgres_type(parts[-1], arguments, declared=True)

    def value(self) -> str:
        """An expression, up to the next word of a column's definition."""
        if self.tokens[self.at].token_type == TokenType.L_PAREN:
            return self.wrapped()
        first = self.at
        self.at += 1
        if self.tokens[first].token_type in (TokenType.DASH, TokenType.PLUS):
            self.at += 1
        if self.more and self.tokens[self.at].token_type == TokenType.L_PAREN:
            self.wrapped()
        return self.text(first, self.at)

    def computed(self) -> str:
        """The expression of a computed column."""
        first, depth = self.at, 0
        while self.more:
            token = self.tokens[self.at]
            if depth == 0 and (token.token_type in ENDS or self.word() == "PERSISTED"):
                break
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            self.at += 1
        return self.text(first, self.at)

    def column_list(self) -> list[str]:
        """(a, b DESC): names; an order is left out."""
        inner = []
        self.at += 1
        while True:
            inner.append(self.name())
            if self.word() in ("ASC", "DESC"):
                inner[-1] += "\0DESC" if self.word() == "DESC" else ""
                self.at += 1
            ended = self.tokens[self.at].token_type == TokenType.R_PAREN
            self.at += 1
            if ended:
                return inner


def key_list(
    names: Sequence[str], table: TableName | None, drafts: Sequence[ColumnDraft] = (), *, ordered: bool = False
) -> str:
    """Columns of a key, as they are spelled."""
    spelled = {one.name.lower(): one.name for one in drafts}
    if table is not None:
        spelled = {low: one.name for low, one in table.columns.items()} | spelled
    found = []
    for given in names:
        name, _, order = given.partition("\0")
        if name.lower() not in spelled:
            raise Refusal(1911, f"Column name '{name}' does not exist in the target table or view.")
        found.append(quoted(spelled[name.lower()]) + (f" {order}" if order and ordered else ""))
    return ", ".join(found)


class Definer:
    """Of tables.  Each method gives Postgres' statements."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def column(self, cursor: Cursor, table: TableName | None, before: Sequence[ColumnDraft] = ()) -> ColumnDraft:
        """One column's definition."""
        draft = ColumnDraft(cursor.name())
        if cursor.take("AS"):
            scope = table or _scope(before)
            draft.generated = Translator(self.names, {}).expression(cursor.computed(), scope)
            draft.flags["persisted" if cursor.take("PERSISTED") else "virtual"] = True
            draft.nullable = False if cursor.take("NOT", "NULL") else None
            return draft
        alias_types.column_type(cursor, self.names, draft)
        if draft.type.startswith(_TEXTS):
            draft.collation = DEFAULT_COLLATION
        while cursor.more and cursor.tokens[cursor.at].token_type not in ENDS:
            self._option(cursor, draft, table)
        if draft.type == "ss.rowversion":
            draft.default, draft.nullable = "ss.rowversion()", False if draft.nullable is None else draft.nullable
        return draft

    def _option(self, cursor: Cursor, draft: ColumnDraft, table: TableName | None) -> None:  # noqa: C901, PLR0912
        name = cursor.name() if cursor.take("CONSTRAINT") else ""
        constraint = f"CONSTRAINT {quoted(name)} " if name else ""
        if cursor.take("COLLATE"):
            given = cursor.name()
            draft.collation = DEFAULT_COLLATION if given.lower() == "database_default" else given
        elif cursor.take("NOT", "NULL"):
            draft.nullable = False
        elif cursor.take("NULL"):
            draft.nullable = True
        elif cursor.take("IDENTITY"):
            seed, step = (
                [*map(str.strip, cursor.wrapped().split(","))]
                if cursor.more and cursor.tokens[cursor.at].token_type == TokenType.L_PAREN
                else ["1", "1"]
            )
            draft.identity = f"GENERATED BY DEFAULT AS IDENTITY (START WITH {int(seed)} INCREMENT BY {int(step)})"
        elif cursor.take("DEFAULT"):
            draft.default, draft.default_name = Translator(self.names, {}).expression(cursor.value()), name
            cursor.take("WITH", "VALUES")
        elif cursor.take("PRIMARY", "KEY"):
            _ = cursor.take("CLUSTERED") or cursor.take("NONCLUSTERED")
            draft.constraints.append(f"{constraint}PRIMARY KEY")
            draft.nullable = False
        elif cursor.take("UNIQUE"):
            _ = cursor.take("CLUSTERED") or cursor.take("NONCLUSTERED")
            draft.constraints.append(f"{constraint}UNIQUE NULLS NOT DISTINCT")
        elif cursor.take("CHECK"):
            draft.constraints.append(
                f"{constraint}CHECK"
                f" ({Translator(self.names, {}).expression(cursor.wrapped(), table or _scope([draft]))})"
            )
        elif cursor.take("SPARSE"):
            draft.flags["sparse"] = True
        elif cursor.take("ROWGUIDCOL"):
            draft.flags["rowguid"] = True
        elif cursor.take("HIDDEN"):
            draft.flags["hidden"] = True
        elif cursor.take("FOREIGN", "KEY") or cursor.word() == "REFERENCES":
            draft.constraints.append(constraint + self._reference(cursor))
        elif cursor.take("COLUMN_SET", "FOR", "ALL_SPARSE_COLUMNS"):
            draft.flags["column_set"] = True
        else:
            raise unknown(f"{cursor.word() or 'a word'} in the definition of column {draft.name}")

    def _reference(self, cursor: Cursor) -> str:
        cursor.expect("REFERENCES")
        parts = ["", "", *cursor.names()][-3:]
        other = self.names.table(*parts)
        made = f"REFERENCES {other.sql}"
        if cursor.more and cursor.tokens[cursor.at].token_type == TokenType.L_PAREN:
            made += f" ({key_list(cursor.column_list(), other)})"
        while cursor.word() == "ON":
            words = [cursor.word(1), cursor.word(2)]
            cursor.at += 3
            if words[1] in ("SET", "NO"):
                words.append(cursor.word())
                cursor.at += 1
            made += " ON " + " ".join(words)
        return made

    def constraint(self, cursor: Cursor, table: TableName | None, drafts: Sequence[ColumnDraft]) -> str:
        """One of the table."""
        name = f"CONSTRAINT {quoted(cursor.name())} " if cursor.take("CONSTRAINT") else ""
        if cursor.take("PRIMARY", "KEY") or cursor.word() == "UNIQUE":
            kind = "UNIQUE NULLS NOT DISTINCT" if cursor.take("UNIQUE") else "PRIMARY KEY"
            _ = cursor.take("CLUSTERED") or cursor.take("NONCLUSTERED")
            made = f"{name}{kind} ({key_list(cursor.column_list(), table, drafts)})"
            if cursor.take("WITH"):
                cursor.wrapped()
            return made
        if cursor.take("FOREIGN", "KEY"):
            own = key_list(cursor.column_list(), table, drafts)
            return f"{name}FOREIGN KEY ({own}) {self._reference(cursor)}"
        if cursor.take("CHECK"):
            return f"{name}CHECK ({Translator(self.names, {}).expression(cursor.wrapped(), table or _scope(drafts))})"
        raise unknown(f"the table constraint {cursor.word()}")

    def create_table(self, cursor: Cursor) -> list[str]:
        """CREATE TABLE name (…) [WITH (MEMORY_OPTIMIZED = ON …)]."""
        _, schema, name = ["", "", *cursor.names()][-3:]
        schema = self.names.schema(schema)
        if (schema.lower(), name.lower()) in self.names.tables:
            raise Refusal(2714, f"There is already an object named '{name}' in the database.")
        cursor.at += 1
        drafts: list[ColumnDraft] = []
        constraints: list[str] = []
        flags: dict[str, object] = {}
        while True:
            if cursor.take("PERIOD", "FOR", "SYSTEM_TIME"):
                raise unknown("system-versioned tables; tests mark one with sp_emulator_flag")
            if cursor.word() in ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
                constraints.append(self.constraint(cursor, None, drafts))
            elif cursor.word() == "INDEX":
                raise unknown("INDEX in CREATE TABLE")
            else:
                drafts.append(self.column(cursor, None, drafts))
            ended = cursor.tokens[cursor.at].token_type == TokenType.R_PAREN
            cursor.at += 1
            if ended:
                break
        if cursor.take("ON"):
            cursor.name()
        if cursor.take("TEXTIMAGE_ON"):
            cursor.name()
        if cursor.take("WITH"):
            options = cursor.wrapped().upper()
            flags |= {"memory": True} if "MEMORY_OPTIMIZED" in options else {}
        table = f"{quoted(schema)}.{quoted(name)}"
        for draft in drafts:
            if draft.generated:
                draft.type = "\0"
        return _made(table, drafts, constraints, flags)

    def alter_table(self, cursor: Cursor) -> tuple[TableName, str, list[str]]:
        """The table, what is done to it ("add", "drop", …), statements; a NUL stands for a type to be found."""
        _, schema, name = ["", "", *cursor.names()][-3:]
        table = self.names.table("", schema, name)
        _ = cursor.take("WITH", "CHECK") or cursor.take("WITH", "NOCHECK")
        if cursor.take("ADD"):
            return table, *self._add(cursor, table)
        if cursor.take("ALTER", "COLUMN"):
            return table, "alter", self._alter(cursor, table)
        if cursor.take("DROP"):
            return table, *self._drop(cursor, table)
        if cursor.take("SWITCH"):
            return table, "switch", self._switch(cursor, table)
        if cursor.take("SET") or cursor.take("ENABLE") or cursor.take("REBUILD"):
            return table, "other", []
        raise unknown(f"ALTER TABLE … {cursor.word()}")

    def _add(self, cursor: Cursor, table: TableName) -> tuple[str, list[str]]:
        made, kind = [], "other"
        while True:
            if cursor.word() == "CONSTRAINT" and cursor.word(2) == "DEFAULT":
                cursor.at += 1
                name = cursor.name()
                cursor.at += 1
                value = Translator(self.names, {}).expression(cursor.value())
                cursor.expect("FOR")
                column = _column(table, cursor.name())
                made.append(f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(column.name)} SET DEFAULT ({value})")
                made.append(_flagged(table.sql, column.name, {"default_name": name}))
            elif cursor.take("DEFAULT"):
                value = Translator(self.names, {}).expression(cursor.value())
                cursor.expect("FOR")
                column = _column(table, cursor.name())
                made.append(f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(column.name)} SET DEFAULT ({value})")
            elif cursor.word() in ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
                made.append(f"ALTER TABLE {table.sql} ADD {self.constraint(cursor, table, ())}")
            else:
                kind, draft = "add", self.column(cursor, table)
                if draft.name.lower() in table.columns:
                    raise Refusal(
                        2705,
                        f"Column names in each table must be unique. Column name '{draft.name}' in table"
                        f" '{table.name}' is specified more than once.",
                    )
                draft.type = draft.type or "\0" + draft.generated
                if draft.default and draft.nullable is not False and draft.type != "ss.rowversion":
                    # rows that are there get NULL unless WITH VALUES was said
                    made += [
                        f"ALTER TABLE {table.sql} ADD COLUMN {_without_default(draft)}",
                        f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(draft.name)} SET DEFAULT ({draft.default})",
                    ]
                else:
                    made.append(f"ALTER TABLE {table.sql} ADD COLUMN {draft.declared()}")
                made += _extras(table.sql, draft)
            if not cursor.more or cursor.tokens[cursor.at].token_type != TokenType.COMMA:
                return kind, made
            cursor.at += 1

    def _alter(self, cursor: Cursor, table: TableName) -> list[str]:
        known = _column(table, cursor.name())
        if cursor.word() in ("ADD", "DROP"):
            added = cursor.take("ADD")
            _ = added or cursor.take("DROP")
            word_ = cursor.name().upper()
            if word_ not in ("SPARSE", "PERSISTED", "MASKED", "HIDDEN"):
                raise unknown(f"ALTER COLUMN … ADD {word_}")
            return [_flagged(table.sql, known.name, {word_.lower(): True} if added else {})]
        draft = ColumnDraft(known.name)
        alias_types.column_type(cursor, self.names, draft)
        if draft.type.startswith(_TEXTS):
            draft.collation = DEFAULT_COLLATION
        while cursor.more:
            self._option(cursor, draft, table)
        collation = f" COLLATE ss.{quoted(draft.collation)}" if draft.collation else ""
        name = quoted(known.name)
        null = "SET" if draft.nullable is False else "DROP"
        return [
            f"ALTER TABLE {table.sql} ALTER COLUMN {name} TYPE {draft.type}{collation} USING {name}::{draft.type}",
            f"ALTER TABLE {table.sql} ALTER COLUMN {name} {null} NOT NULL",
            alias_types.altered(table.sql, draft),
        ]

    def _switch(self, cursor: Cursor, table: TableName) -> list[str]:
        """SWITCH [PARTITION n] TO table: the emulator's tables have all their rows in one partition."""
        if cursor.take("PARTITION"):
            cursor.at += 1
        cursor.expect("TO")
        other = self.names.table(*["", "", *cursor.names()][-3:])
        return [f"INSERT INTO {other.sql} SELECT * FROM {table.sql}", f"DELETE FROM {table.sql}"]

    def _drop(self, cursor: Cursor, table: TableName) -> tuple[str, list[str]]:
        made: list[str] = []
        if cursor.take("COLUMN"):
            exists = "IF EXISTS " if cursor.take("IF", "EXISTS") else ""
            while True:
                given = cursor.name()
                if not exists or given.lower() in table.columns:
                    made.append(f"DROP COLUMN {quoted(_column(table, given, 4924).name)} RESTRICT")
                if not cursor.more:
                    return "drop", [f"ALTER TABLE {table.sql} {', '.join(made)}"] if made else []
                cursor.at += 1
        cursor.take("CONSTRAINT")
        cursor.take("IF", "EXISTS")
        return "constraint", [cursor.name()]

    def create_index(self, cursor: Cursor) -> list[str]:
        """CREATE [UNIQUE] [CLUSTERED] INDEX name ON table (…) [INCLUDE (…)] [WHERE …]."""
        unique = cursor.take("UNIQUE")
        _ = cursor.take("CLUSTERED") or cursor.take("NONCLUSTERED")
        cursor.expect("INDEX")
        name = cursor.name()
        cursor.expect("ON")
        _, schema, given = ["", "", *cursor.names()][-3:]
        table = self.names.table("", schema, given)
        columns = key_list(cursor.column_list(), table, ordered=True)
        made = f"CREATE {'UNIQUE ' if unique else ''}INDEX {quoted(name)} ON {table.sql} ({columns})"
        if cursor.take("INCLUDE"):
            made += f" INCLUDE ({key_list(cursor.column_list(), table)})"
        if unique:
            made += " NULLS NOT DISTINCT"
        if cursor.take("WHERE"):
            made += f" WHERE {Translator(self.names, {}).expression(cursor.text(cursor.at, len(cursor.tokens)), table)}"
        return [made]


def _column(table: TableName, name: str, number: int = 4924) -> ColumnName:
    found = table.columns.get(name.lower())
    if found is None:
        raise Refusal(number, f"ALTER TABLE failed because column '{name}' does not exist in table '{table.name}'.")
    return found


def _scope(drafts: Sequence[ColumnDraft]) -> TableName:
    columns = {
        one.name.lower(): ColumnName(one.name, "?", -1, identity=False, computed=False, type=one.type, collation="")
        for one in drafts
    }
    return TableName("", "", 0, columns)


def _without_default(draft: ColumnDraft) -> str:
    default, draft.default = draft.default, ""
    made = draft.declared()
    draft.default = default
    return made


def _flagged(table: str, column: str, flags: dict[str, object]) -> str:
    return f"COMMENT ON COLUMN {table}.{quoted(column)} IS '{json.dumps(flags).replace(chr(39), chr(39) * 2)}'"


def _extras(table: str, draft: ColumnDraft) -> list[str]:
    """What follows the definition of a column."""
    if draft.default_name:
        draft.flags["default_name"] = draft.default_name
    made = [_flagged(table, draft.name, draft.flags)] if draft.flags else []
    if draft.type == "ss.rowversion":
        text = draft.name.replace("'", "''")
        made.append(
            f"CREATE TRIGGER rowversion BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION ss.stamp('{text}')"
        )
    return made


def _made(table: str, drafts: Sequence[ColumnDraft], constraints: Sequence[str], flags: dict[str, object]) -> list[str]:
    computed = [one for one in drafts if one.generated]
    plain = [one for one in drafts if not one.generated]
    for draft in computed:  # its type is that of its expression, asked of Postgres
        draft.type = "\0" + draft.generated
    columns = ", ".join([*(one.declared() for one in drafts), *constraints])
    made = [f"CREATE TABLE {table} ({columns})"]
    if computed:
        made.insert(
            0,
            "\0"
            + ", ".join(
                f"{quoted(one.name)} {one.type}" + (f' COLLATE ss."{one.collation}"' if one.collation else "")
                for one in plain
            ),
        )
    for draft in drafts:
        made += _extras(table, draft)
    if flags:
        made.append(f"COMMENT ON TABLE {table} IS '{json.dumps(flags)}'")
    return made
