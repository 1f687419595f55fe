"""SQL text → tokens: enough of MySQL's and MariaDB's lexical rules to find names in DDL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from replicator.model.identifiers import TableId

ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 0x4, 0x100000  # bits of sql_mode


class Token(NamedTuple):
    """kind: w(ord), q(uoted name), s(tring), o(perator)."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "w" else ""


_TOKEN = re.compile(
    r"(?P<space>\s+|/\*M?!\d*|\*/|/\*.*?(?:\*/|$)|--(?=\s|$)[^\n]*|#[^\n]*)|(?P<q>`(?:[^`]|``)*`)|(?P<w>[\w$@]+)"
    r"|(?P<s>'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\"\"|\\.)*\")|(?P<o>.)",
    re.DOTALL,
)
_TOKEN_PLAIN_BACKSLASH = re.compile(
    _TOKEN.pattern.replace(r"'(?:[^'\\]|''|\\.)*'", "'(?:[^']|'')*'").replace(
        r"\"(?:[^\"\\]|\"\"|\\.)*\"", r"\"(?:[^\"]|\"\")*\""
    ),
    re.DOTALL,
)


def tokenize(sql: str, sql_mode: int = 0) -> list[Token]:
    """Words, names, strings and operators; comments are left out, but what executable ones hold is kept."""
    pattern = _TOKEN_PLAIN_BACKSLASH if sql_mode & NO_BACKSLASH_ESCAPES else _TOKEN
    tokens = []
    for match in pattern.finditer(sql):
        kind, text = match.lastgroup or "o", match.group()
        if kind == "q":
            text = text[1:-1].replace("``", "`")
        elif kind == "s" and text[0] == '"' and sql_mode & ANSI_QUOTES:
            kind, text = "q", text[1:-1].replace('""', '"')
        if kind != "space":
            tokens.append(Token(kind, text))
    return tokens


class NotUnderstood(Exception):
    """The statement is none that is known here."""


class TokenReader:
    """Tokens with a place."""

    def __init__(self, tokens: Sequence[Token], database: str) -> None:
        self.tokens = tokens
        self.database = database
        self.at = 0

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else Token("", "")

    def accept(self, *words: str) -> bool:
        """Step over the words if they all come next."""
        if all(
            self.peek(i).word == word or (self.peek(i).kind == "o" and self.peek(i).text == word)
            for i, word in enumerate(words)
        ):
            self.at += len(words)
            return True
        return False

    def any_of(self, *words: str) -> str:
        word = self.peek().word
        if word in words:
            self.at += 1
            return word
        return ""

    def name(self) -> str:
        token = self.peek()
        if token.kind not in ("w", "q"):
            raise NotUnderstood
        self.at += 1
        return token.text

    def table(self) -> TableId:
        first = self.name()
        if self.accept("."):
            return TableId(first, self.name())
        return TableId(self.database, first)

    def wait(self) -> None:
        """WAIT n and NOWAIT of MariaDB."""
        if self.accept("WAIT"):
            self.at += 1
        self.accept("NOWAIT")

    def rest(self) -> list[Token]:
        return list(self.tokens[self.at :])
