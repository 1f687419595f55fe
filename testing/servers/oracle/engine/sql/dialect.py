"""Oracle's SQL as sqlglot's trees, with functions left as they are written: `expressions` knows which it knows."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.oracle import Oracle
from sqlglot.errors import SqlglotError
from sqlglot.parsers.oracle import OracleParser

from testing.servers.oracle.engine.errors import OracleError

_BIND = re.compile(
    r"""(?P<skip>'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/)|(?P<bind>:\s*(?:"[^"]+"|\w+))"""
    r"""|(?<![\w.$#])(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<binary>[fFdD])\b""",
    re.DOTALL,
)
_ERRORS = ((923, re.compile(r"\bSELECT\b(?!.*\bFROM\b)", re.IGNORECASE | re.DOTALL)),)
PREFIX = "bind_"
UNRESERVED = ("START", "TOP", "COMMENT", "ROLLBACK", "COMMIT", "OPERATOR", "CACHE", "LOAD", "CALL", "KILL", "SHOW")


def _serialized(self: Any) -> exp.Expr:
    """XMLSERIALIZE(CONTENT … AS CLOB [NO INDENT]) as a function with what it prints, and 1 where it does not indent."""
    if not self._match_text_seq("CONTENT"):
        self.raise_error("DOCUMENT")
    document = self._parse_disjunction()
    if not self._match_text_seq("AS", "CLOB"):
        self.raise_error("a type")
    packed = "1" if self._match_text_seq("NO", "INDENT") else "0"
    return exp.Anonymous(this="XMLSERIALIZE", expressions=[document, exp.Literal.number(packed)])


class Server(Oracle):
    """As the server reads it."""

    class Tokenizer(Oracle.Tokenizer):
        KEYWORDS: ClassVar[Any] = {
            **{key: value for key, value in Oracle.Tokenizer.KEYWORDS.items() if key not in UNRESERVED},
        }

    class Parser(OracleParser):
        FUNCTIONS: ClassVar[Any] = {}
        FUNCTION_PARSERS: ClassVar[Any] = {
            name: Oracle.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "EXTRACT", "TRIM", "LISTAGG")
        } | {"XMLSERIALIZE": _serialized}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {
            name: one
            for name, one in Oracle.Parser.NO_PAREN_FUNCTION_PARSERS.items()
            if name not in ("NEXT", "DBMS_RANDOM", "IF")
        }
        TYPE_LITERAL_PARSERS: ClassVar[Any] = {
            exp.DType.DATE: lambda self, this, _: self.expression(exp.Anonymous(this="DATE ", expressions=[this])),
            exp.DType.TIMESTAMP: lambda self, this, _: self.expression(
                exp.Anonymous(this="TIMESTAMP ", expressions=[this])
            ),
        }


assert issubclass(Server.Parser, parser.Parser)
assert issubclass(Server.Tokenizer, tokens.Tokenizer)


@lru_cache(maxsize=2000)
def parsed(sql: str) -> tuple[exp.Expr, tuple[str, ...]]:
    """The tree, whose placeholders are `bind_0` and so on, and the names of these in the order in which they stand."""
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match["skip"]:
            return match["skip"]
        if match["binary"]:
            return f"TO_BINARY_{'FLOAT' if match['binary'] in 'fF' else 'DOUBLE'}('{match['number']}')"
        names.append(match["bind"][1:].strip().strip('"').upper())
        return f":{PREFIX}{len(names) - 1}"

    text = _BIND.sub(numbered, sql.rstrip().rstrip(";"))
    try:
        tree = Server().parse(text)
    except (SqlglotError, ValueError, IndexError):
        raise OracleError(next((number for number, pattern in _ERRORS if pattern.search(text)), 933)) from None
    if len(tree) != 1 or tree[0] is None or isinstance(tree[0], exp.Command):
        raise OracleError(900)
    return tree[0], tuple(names)
