"""What a statement itself says of a column: the catalog may show what a later statement has made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replicator.sources.mysql.ddl.tokenizer import Token

_SYNONYMS = {
    "integer": "int", "bool": "tinyint", "boolean": "tinyint", "dec": "decimal", "numeric": "decimal",
    "fixed": "decimal",
    "real": "double", "character": "char", "utf8": "utf8mb3",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """`column_type` in the catalog's words (display widths apart); `charset` empty where the statement names none."""

    column_type: str = ""
    charset: str = ""
    not_null: bool = False


def declared_column(definition: Sequence[Token]) -> DeclaredColumn:
    """From what stands behind the column's name, or behind CONVERT."""
    words = [token.word for token in _outside(definition)]
    name = definition[0].text.lower() if definition and definition[0].kind == "w" else ""
    varying = words[1:2] == ["VARYING"]
    name = "varchar" if varying else _SYNONYMS.get(name, name)
    after = definition[2 if varying or words[1:2] == ["PRECISION"] else 1 :]
    unsigned = " unsigned" if "UNSIGNED" in words or "ZEROFILL" in words else ""
    return DeclaredColumn(f"{name}{_arguments(after)}{unsigned}", _charset(definition), _not_null(words))


def _not_null(words: Sequence[str]) -> bool:
    """NOT NULL, a primary key, or a TIMESTAMP of the old kind."""
    if "NULL" not in words:
        return words[:1] == ["TIMESTAMP"] or ("KEY" in words and words[words.index("KEY") - 1] != "UNIQUE")
    return any(words[at : at + 2] == ["NOT", "NULL"] for at in range(len(words)))


def _outside(tokens: Sequence[Token]) -> Iterator[Token]:
    """Not those in parentheses."""
    depth = 0
    for token in tokens:
        depth += (token == ("o", "(")) - (token == ("o", ")"))
        if not depth:
            yield token


def _arguments(tokens: Sequence[Token]) -> str:
    if not tokens or tokens[0] != ("o", "("):
        return ""
    end = next((at for at, token in enumerate(tokens) if token == ("o", ")")), len(tokens))
    return "".join(token.text for token in tokens[: end + 1])


def _charset(tokens: Sequence[Token]) -> str:
    outside = list(_outside(tokens))
    words = [token.word for token in outside]
    for at, word in enumerate(words):
        if word == "CHARSET" or words[at - 1 : at + 1] == ["CHARACTER", "SET"]:
            return _name(outside, at + 1)
    if "COLLATE" in words:  # a collation without a character set's name in it is of the default one
        name = _name(outside, words.index("COLLATE") + 1)
        return "" if name.startswith("uca1400") else _SYNONYMS.get(name.partition("_")[0], name.partition("_")[0])
    return ""


def _name(tokens: Sequence[Token], at: int) -> str:
    name = tokens[at].text.strip("'\"").lower() if at < len(tokens) else ""
    return "" if name == "default" else _SYNONYMS.get(name, name)
