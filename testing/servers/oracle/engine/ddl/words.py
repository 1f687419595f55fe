"""Definitions as words: a cursor over a statement's tokens, for what sqlglot's parser does not know of Oracle."""

from __future__ import annotations

import re

from testing.servers.oracle.engine.errors import OracleError, unsupported

_TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/|(?P<quoted>"[^"]+")|(?P<string>[nN]?'(?:[^']|'')*')|(?P<number>\d+(?:\.\d+)?)"""
    r"""|(?P<word>[^\W\d][\w$#]*)|(?P<sign>[^\w\s])""",
    re.DOTALL,
)


class Words:
    """kinds: quoted, string, number, word (in upper case), sign."""

    def __init__(self, sql: str) -> None:
        self.sql, self.at = sql, 0
        self.tokens: list[tuple[str, str, int, int]] = []
        at = 0
        while at < len(sql):
            match = _TOKEN.match(sql, at)
            if match is None:
                raise OracleError(911)
            if match.lastgroup:
                text = match[match.lastgroup]
                self.tokens.append((
                    match.lastgroup, text.upper() if match.lastgroup == "word" else text, match.start(), match.end(),
                ))  # fmt: skip
            at = match.end()
        while self.tokens and self.tokens[-1][1] == ";":
            self.tokens.pop()

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def peek(self, ahead: int = 0) -> str:
        """An empty one at the end; a quoted name or string as it is written."""
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def take(self, *words: str) -> bool:
        """All of them, in this order, or none."""
        if [self.peek(at) for at in range(len(words))] != list(words):
            return False
        self.at += len(words)
        return True

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise OracleError(922)

    def name(self) -> str:
        if self.ended or self.tokens[self.at][0] not in ("quoted", "word"):
            raise OracleError(904, "")
        kind, text, _, _ = self.tokens[self.at]
        self.at += 1
        return text[1:-1] if kind == "quoted" else text

    def qualified(self, schema: str) -> tuple[str, str]:
        """Owner and name."""
        first = self.name()
        return (first, self.name()) if self.take(".") else (schema, first)

    def integer(self) -> int:
        negative = self.take("-")
        text = self.peek()
        if not text.isdigit():
            raise OracleError(922)
        self.at += 1
        return -int(text) if negative else int(text)

    def string(self) -> str:
        if self.ended or self.tokens[self.at][0] != "string":
            raise OracleError(922)
        text = self.tokens[self.at][1]
        self.at += 1
        return text[text.index("'") + 1 : -1].replace("''", "'")

    def names(self) -> list[str]:
        """In parentheses."""
        self.need("(")
        found = [self.name()]
        while self.take(","):
            found.append(self.name())
        self.need(")")
        return found

    def in_parentheses(self) -> str:
        """The text between them; they may nest."""
        self.need("(")
        start, depth = self.tokens[self.at][2] if not self.ended else 0, 1
        while not self.ended:
            text = self.peek()
            depth += (text == "(") - (text == ")")
            self.at += 1
            if not depth:
                return self.sql[start : self.tokens[self.at - 1][2]].strip()
        raise OracleError(907)

    def until(self, *stops: str) -> str:
        """Text up to one of these words outside of parentheses, or the end."""
        start, depth = self.at, 0
        while not self.ended and (depth or self.peek() not in stops):
            depth += (self.peek() == "(") - (self.peek() == ")")
            if depth < 0:
                break
            self.at += 1
        if self.at == start:
            return ""
        return self.sql[self.tokens[start][2] : self.tokens[self.at - 1][3]]

    def end(self) -> None:
        if not self.ended:
            raise unsupported(f"{self.peek()} in: {self.sql}")
