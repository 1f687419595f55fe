"""A definition, token by token, and what it says of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from testing.servers.sqlserver.language.batch import word
from testing.servers.sqlserver.language.dialect import postgres_type, quoted
from testing.servers.sqlserver.refusals import Refusal, unknown

MAX_NAME = 63
ENDS = (TokenType.COMMA, TokenType.R_PAREN)


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
