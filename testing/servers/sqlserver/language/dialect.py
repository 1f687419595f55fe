"""T-SQL as sqlglot parses it, with every function under its own name and every type as `ss` has it."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.parsers.tsql import TSQLParser
from sqlglot.tokenizer_core import Token, TokenType

from testing.servers.sqlserver.refusals import Refusal

MAX = "max"
_PLAIN = {
    "int": "int4", "integer": "int4", "bigint": "int8", "smallint": "int2", "tinyint": "ss.tinyint", "bit": "ss.bit",
    "real": "float4", "money": "ss.money", "smallmoney": "ss.smallmoney", "date": "date", "datetime": "ss.datetime",
    "smalldatetime": "ss.smalldatetime", "uniqueidentifier": "ss.uniqueidentifier", "text": "ss.text",
    "ntext": "ss.ntext", "image": "ss.image", "xml": "ss.xml", "sql_variant": "ss.sql_variant",
    "hierarchyid": "ss.hierarchyid", "geography": "ss.geography", "geometry": "ss.geometry",
    "rowversion": "ss.rowversion", "timestamp": "ss.rowversion", "sysname": "ss.nvarchar(128)",
}  # fmt: skip
_SIZED = {
    "varchar": 8000, "nvarchar": 4000, "char": 8000, "nchar": 4000, "varbinary": 8000, "binary": 8000,
}  # fmt: skip
_SCALED = ("time", "datetime2", "datetimeoffset")
_TEXTS = (TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.IDENTIFIER)
NAMES = frozenset((*_PLAIN, *_SIZED, *_SCALED, "decimal", "numeric", "dec", "float"))


def postgres_type(name: str, arguments: list[str], *, declared: bool = False) -> str:
    """As `ss` has it.  declared: of a column or variable, where a size that is left out is 1; else it is 30."""
    known = name.lower()
    if known in _PLAIN and not arguments:
        return _PLAIN[known]
    if known in _SIZED:
        size = arguments[0].lower() if arguments else "1" if declared else "30"
        if size == MAX and known in ("varchar", "nvarchar", "varbinary"):
            return f"ss.{known}"
        if not size.isdigit() or not 1 <= int(size) <= _SIZED[known]:
            raise Refusal(131, f"The size ({size}) given to the type '{name}' exceeds the maximum allowed.", 15)
        return f'ss."{known}"({size})'
    if known in _SCALED:
        scale = int(arguments[0]) if arguments else 7
        if not 0 <= scale <= 7:
            raise Refusal(1002, f"Line 1: Specified scale {scale} is invalid.", 15)
        return f"ss.{known}({scale + 1})"
    if known in ("decimal", "numeric", "dec"):
        precision, scale = [*map(int, arguments), 18, 0][:2] if len(arguments) != 1 else (int(arguments[0]), 0)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise Refusal(1007, f"The number '{precision}' is out of the range for numeric representation.", 15)
        return f"numeric({precision},{scale})"
    if known == "float":
        return "float4" if arguments and int(arguments[0]) < 25 else "float8"
    raise Refusal(243, f"Type {name} is not a defined system type.")


class Language(TSQL):
    """The dialect."""

    class Parser(TSQLParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS = {
            name: parse
            for name, parse in TSQLParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "CONVERT", "TRY_CAST", "TRY_CONVERT")
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}

        def _parse_types(
            self,
            check_func: bool = False,  # noqa: FBT001, FBT002 - as sqlglot has it
            *_: Any,
            **__: Any,
        ) -> exp.Expr | None:
            if check_func or self._curr is None:
                return None
            if self._curr.text.lower() == "sys" and self._next and self._next.token_type == TokenType.DOT:
                self._advance(2)
            name = self._curr.text
            if name.lower() not in NAMES:
                return None
            self._advance()
            arguments = []
            if self._match(TokenType.L_PAREN):
                while self._curr and not self._match(TokenType.R_PAREN):
                    arguments.append(self._curr.text)
                    self._advance()
                    self._match(TokenType.COMMA)
            return exp.DataType(this=exp.DType.USERDEFINED, kind=postgres_type(name, arguments))


def tokens(sql: str) -> list[Token]:
    """Return a batch's tokens; Refusal if it cannot be tokenized (an unclosed quotation mark or comment)."""
    from sqlglot.errors import TokenError

    try:
        return [part for one in Language().tokenize(sql) for part in _words(one)]
    except TokenError as error:
        raise Refusal(105, f"Unclosed quotation mark or comment: {str(error)[:200]}", 15) from None


def _words(token: Token) -> list[Token]:
    """PRIMARY KEY and the like are two."""
    if " " not in token.text or token.token_type in _TEXTS:
        return [token]
    found, at = [], token.start
    for part in token.text.split():
        found.append(Token(TokenType.VAR, part, token.line, token.col, at, at + len(part) - 1))
        at += len(part) + 1
    return found


def text_literal(value: str, kind: str = "nvarchar") -> str:
    """A value in Postgres' SQL."""
    quoted = value.replace("'", "''")
    size = max(1, len(value.encode("utf-16-le")) // 2)
    limit = _SIZED[kind]
    return f"'{quoted}'::ss.{kind}({size})" if size <= limit else f"'{quoted}'::ss.{kind}"


def quoted(name: str) -> str:
    """An identifier of Postgres."""
    return '"' + name.replace('"', '""') + '"'
