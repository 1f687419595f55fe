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


# A quoted part that is never closed takes the rest; every repetition is possessive: a megabyte is read in one pass.
# Words may hold any character of the basic plane from U+0080 on; blanks are those of ASCII (both as in the servers' lexers).
_TOKEN = re.compile(
    r"(?P<space>[ \t\n\v\f\r\0]+|--(?=[\x00-\x20]|\Z)[^\n]*|#[^\n]*)"
    r"|(?P<open>/\*M?!\d*)|(?P<comment>/\*)|(?P<close>\*/)"
    r"|(?P<q>`(?:[^`]|``)*+(?:`|\Z))|(?P<w>[\w$@\x80-\uffff]+)"
    r"|(?P<s>'(?:[^'\\]|''|\\.?)*+(?:'|\Z)|\"(?:[^\"\\]|\"\"|\\.?)*+(?:\"|\Z))|(?P<o>.)",
    re.DOTALL,
)
_TOKEN_PLAIN_BACKSLASH = re.compile(_TOKEN.pattern.replace(r"\\]|", "]|").replace(r"|\\.?", ""), re.DOTALL)


_OPERATORS = {chr(code): Token("o", chr(code)) for code in range(128)}


def tokenize(sql: str, sql_mode: int = 0, *, mariadb: bool = True) -> list[Token]:
    """Words, names, strings and operators; comments are left out, but what executable ones hold is kept.

    Which versioned comments a server executed is in its log already: it blanks the `!` of the others.  `/*M!` is MariaDB's.
    """
    pattern = _TOKEN_PLAIN_BACKSLASH if sql_mode & NO_BACKSLASH_ESCAPES else _TOKEN
    tokens, at, opened, end = list[Token](), 0, 0, len(sql)
    while at < end:
        match = pattern.match(sql, at)
        assert match is not None
        kind, text, at = match.lastgroup or "o", match.group(), match.end()
        if kind == "o":
            tokens.append(_OPERATORS.get(text) or Token(kind, text))
        elif kind == "w":
            tokens.append(Token(kind, text))
        elif kind in ("q", "s"):
            tokens.append(_quoted(kind, text, sql_mode))
        elif kind == "comment" or (kind == "open" and text[2] == "M" and not mariadb):
            closed = sql.find("*/", at)
            at = end if closed < 0 else closed + 2
        elif kind == "open":
            opened += 1
        elif kind == "close" and opened:
            opened -= 1
        elif kind == "close":  # two operators: `2*/* half of a comment */3`
            tokens.append(Token("o", "*"))
            at -= 1
    return tokens


def _quoted(kind: str, text: str, sql_mode: int) -> Token:
    if kind == "q":
        return Token("q", text[1:].removesuffix("`").replace("``", "`"))
    if kind == "s" and text[0] == '"' and sql_mode & ANSI_QUOTES:
        return Token("q", text[1:].removesuffix('"').replace('""', '"'))
    return Token(kind, text)


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
