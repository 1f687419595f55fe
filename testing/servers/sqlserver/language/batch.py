"""A batch of T-SQL as a tree of statements: T-SQL needs nothing between two statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from testing.servers.sqlserver.language.dialect import tokens
from testing.servers.sqlserver.refusals import Refusal

STARTS = frozenset({
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "EXEC", "EXECUTE", "DECLARE", "SET", "IF", "BEGIN", "COMMIT",
    "ROLLBACK",
    "SAVE", "CREATE", "ALTER", "DROP", "TRUNCATE", "USE", "GRANT", "REVOKE", "DENY", "PRINT", "WAITFOR", "RAISERROR",
    "THROW",
    "RETURN", "WHILE", "KILL", "DBCC", "CHECKPOINT", "BREAK", "CONTINUE", "END", "ELSE",
})  # fmt: skip
_PERMISSIONS = frozenset({"GRANT", "REVOKE", "DENY"})
_QUERIES = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"})
_JOINERS = frozenset({"UNION", "ALL", "EXCEPT", "INTERSECT"})


@dataclass(frozen=True)
class Statement:
    """`words`: its first tokens in capitals; `tokens`: all of them."""

    sql: str
    tokens: tuple[Token, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word(one) for one in self.tokens[:6])


@dataclass(frozen=True)
class If:
    condition: str
    yes: Node
    no: Node | None


@dataclass(frozen=True)
class While:
    condition: str
    body: Node


@dataclass(frozen=True)
class Block:
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Try:
    body: Block
    catch: Block


Node = Statement | If | While | Block | Try


def word(token: Token) -> str:
    """Return a token's word in capitals; empty for a quoted name or a text."""
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NATIONAL_STRING):
        return ""
    return token.text.upper()


def parsed(sql: str) -> Block:
    """Refusal for a block that does not end."""
    parser = _Parser(sql, tokens(sql))
    made = parser.block(())
    if parser.at < len(parser.tokens):
        raise Refusal(102, f"Incorrect syntax near '{parser.tokens[parser.at].text}'.", 15)
    return made


class _Parser:
    def __init__(self, sql: str, found: Sequence[Token]) -> None:
        self.sql, self.tokens, self.at = sql, found, 0

    def _word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return word(self.tokens[at]) if 0 <= at < len(self.tokens) else ""

    def _semicolons(self) -> None:
        while self.at < len(self.tokens) and self.tokens[self.at].token_type == TokenType.SEMICOLON:
            self.at += 1

    def block(self, ends: tuple[str, ...]) -> Block:
        """Until one of these words, or the batch's end."""
        nodes: list[Node] = []
        while True:
            self._semicolons()
            if self.at >= len(self.tokens) or self._word() in ends:
                return Block(tuple(nodes))
            nodes.append(self._node())

    def _node(self) -> Node:
        self._semicolons()
        first = self._word()
        if first == "IF":
            self.at += 1
            condition = self._condition()
            yes = self._node()
            self._semicolons()
            if self._word() == "ELSE":
                self.at += 1
                return If(condition, yes, self._node())
            return If(condition, yes, None)
        if first == "WHILE":
            self.at += 1
            return While(self._condition(), self._node())
        if first == "BEGIN" and self._word(1) == "TRY":
            return self._try()
        if first == "BEGIN" and self._word(1) not in ("TRAN", "TRANSACTION"):
            self.at += 1
            made = self.block(("END",))
            self._expect("END")
            return made
        return self._statement()

    def _try(self) -> Try:
        self.at += 2
        body = self.block(("END",))
        for expected in ("END", "TRY", "BEGIN", "CATCH"):
            self._semicolons()
            self._expect(expected)
        catch = self.block(("END",))
        self._expect("END")
        self._expect("CATCH")
        return Try(body, catch)

    def _expect(self, expected: str) -> None:
        if self._word() != expected:
            near = self.tokens[self.at].text if self.at < len(self.tokens) else "the end"
            raise Refusal(102, f"Incorrect syntax near '{near}'.", 15)
        self.at += 1

    def _condition(self) -> str:
        """Up to the statement that it guards."""
        first, depth = self.at, 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth == 0 and self.at > first and word(token) in STARTS:
                break
            self.at += 1
        return self._text(first)

    def _text(self, first: int) -> str:
        if first >= self.at:
            raise Refusal(102, "Incorrect syntax near the end.", 15)
        return self.sql[self.tokens[first].start : self.tokens[self.at - 1].end + 1]

    def _statement(self) -> Statement:
        first, kind = self.at, self._word()
        if kind == "CREATE" and any(
            self._word(ahead) in ("VIEW", "TRIGGER", "PROCEDURE", "PROC", "FUNCTION") for ahead in (1, 3)
        ):
            self.at = len(self.tokens)
            return Statement(self._text(first), tuple(self.tokens[first:]))
        depth = cases = 0
        seen: set[str] = set()
        self.at += 1
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.token_type == TokenType.SEMICOLON and depth == 0:
                break
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            found = word(token)
            if found == "CASE":
                cases += 1
            elif found == "END" and cases:
                cases -= 1
            elif depth == 0 and cases == 0 and found in STARTS and not self._goes_on(kind, found, seen):
                break
            if depth == 0:
                seen.add(found)
            self.at += 1
        return Statement(self._text(first), tuple(self.tokens[first : self.at]))

    def _goes_on(self, kind: str, found: str, seen: set[str]) -> bool:
        """Does a word that begins statements belong to this one?"""
        before, after = self._word(-1), self._word(1)
        if kind == "MERGE":
            return True
        if before in _JOINERS and found == "SELECT":
            return True
        if kind in _PERMISSIONS:
            return "TO" not in seen and "FROM" not in seen
        if found == "IF":
            return (
                before in ("TABLE", "COLUMN", "CONSTRAINT", "VIEW", "SCHEMA", "DATABASE", "INDEX", "USER", "ROLE")
                and after == "EXISTS"
            )
        if found in ("EXEC", "EXECUTE"):
            return kind == "INSERT" and not seen & {"VALUES", "SELECT"} and bool(seen)
        if kind == "WITH":
            return (
                (found in _QUERIES and not seen & _QUERIES)
                or (found == "SELECT" and "INSERT" in seen and "SELECT" not in seen)
                or (found == "SET" and "UPDATE" in seen)
            )
        if kind == "INSERT":
            return found == "SELECT" and not seen & {"SELECT", "VALUES", "EXEC"}
        if kind == "UPDATE":
            return found == "SET" and "SET" not in seen
        if kind in ("CREATE", "ALTER"):
            return (
                found == "SET"
                or (before == "ON" and found in ("UPDATE", "DELETE"))
                or (found in ("ALTER", "DROP") and kind == "ALTER" and after in ("COLUMN", "CONSTRAINT"))
                or (
                    kind == "ALTER"
                    and found == "DROP"
                    and before != ""
                    and self.tokens[self.at - 2].text.upper() in ("TABLE", ".", "ROLE")
                )
            )
        return kind == "DECLARE" and found == "SELECT" and before == "FOR"
