"""SQL text → tokens: enough of MySQL's and MariaDB's lexical rules to find names in DDL."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from replicator.model.identifiers import TableId

ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 0x4, 0x100000  # bits of sql_mode


class Token(NamedTuple):
    """kind: w(ord), q(uoted name), s(tring), o(perator), u(nclosed quote and all behind it)."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "w" else ""

    @property
    def name(self) -> str:
        """Where a name stands; empty for what is none.

        A string in double quotes is one: the statement was read with ANSI_QUOTES.
        """
        if self.kind == "s" and self.text[0] == '"':
            return self.text[1:-1].replace('""', '"')
        return self.text if self.kind in ("w", "q") else ""


# Every repetition is possessive: a megabyte is read in one pass. Words may hold any character of the basic plane from
# U+0080 on; blanks are those of ASCII (both as in the servers' lexers).
_LEXEMES = (
    r"(?P<space>[ \t\n\v\f\r\0]+|--(?=[\x00-\x20]|\Z)[^\n]*|#[^\n]*)"
    r"|(?P<open>/\*M?!\d*)|(?P<comment>/\*)|(?P<close>\*/)"
    r"|(?P<q>`(?:[^`]|``)*+`%s)|(?P<w>[\w$@\x80-\uffff]+)"
    r"|(?P<s>%s)|(?P<unclosed>[`'\"].*)|(?P<o>.)"
)
_NAME = r"|\"(?:[^\"]|\"\")*+\""
_STRING = {quote: rf"{quote}(?:[^{quote}\\]|{quote}{quote}|\\.)*+{quote}" for quote in "'\""}
_PLAIN_STRING = {quote: rf"{quote}(?:[^{quote}]|{quote}{quote})*+{quote}" for quote in "'\""}


@cache
def _pattern(sql_mode: int) -> re.Pattern[str]:
    strings = _PLAIN_STRING if sql_mode & NO_BACKSLASH_ESCAPES else _STRING
    if sql_mode & ANSI_QUOTES:
        return re.compile(_LEXEMES % (_NAME, strings["'"]), re.DOTALL)
    return re.compile(_LEXEMES % ("", "|".join(strings.values())), re.DOTALL)


_OPERATORS = {chr(code): Token("o", chr(code)) for code in range(128)}


def tokenize(sql: str, sql_mode: int = 0, *, mariadb: bool = True) -> list[Token]:
    """Words, names, strings and operators; comments are left out, but what executable ones hold is kept.

    Which versioned comments a server executed is in its log already: it blanks the `!` of the others.  `/*M!` is
    MariaDB's.

    The log has the sql_mode in which a statement was executed.  A prepared statement, and what stands behind SET
    STATEMENT sql_mode = …, was read in another one, which the log does not tell: where the text cannot be read in the
    one, it is read in the other.
    """
    tokens = _tokens(sql, sql_mode, mariadb=mariadb)
    if "\\" in sql and _impossible(tokens):
        for other in (NO_BACKSLASH_ESCAPES, ANSI_QUOTES, NO_BACKSLASH_ESCAPES | ANSI_QUOTES):
            found = _tokens(sql, sql_mode ^ other, mariadb=mariadb)
            if not _impossible(found):
                return found
    return tokens


def _impossible(tokens: Sequence[Token]) -> bool:
    """True where no server takes it: a quote is never closed, or a backslash stands alone (but for NULL's old form)."""
    pairs = itertools.zip_longest(tokens, tokens[1:], fillvalue=Token("", ""))
    return any(token.kind == "u" or (token == ("o", "\\") and after.text[:1] != "N") for token, after in pairs)


def _tokens(sql: str, sql_mode: int, *, mariadb: bool) -> list[Token]:
    pattern = _pattern(sql_mode & (ANSI_QUOTES | NO_BACKSLASH_ESCAPES))
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
            tokens.append(_quoted(kind, text))
        elif kind == "unclosed":
            tokens.append(Token("u", text))
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


def _quoted(kind: str, text: str) -> Token:
    return Token(kind, text[1:-1].replace(text[0] * 2, text[0]) if kind == "q" else text)


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
        name = self.peek().name
        if not name:
            raise NotUnderstood
        self.at += 1
        return name

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
