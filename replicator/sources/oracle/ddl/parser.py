"""What a DDL statement in the log says beyond the table's present definition: renames, rows that come or go unseen.

Source: Oracle Database SQL Language Reference, "ALTER TABLE", "CREATE TABLE", "DROP TABLE", "RENAME", "TRUNCATE TABLE".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replicator.model.identifiers import TableId

_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/ | (?P<text>[nN]?'(?:[^']|'')*') | "(?P<quoted>[^"]+)"
    | (?P<word>[A-Za-z\u0080-\uffff][\w$\#\u0080-\uffff]*) | (?P<number>\d[\w.]*) | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_NO_COLUMN = frozenset(
    {
        "CONSTRAINT",
        "PRIMARY",
        "UNIQUE",
        "FOREIGN",
        "CHECK",
        "SUPPLEMENTAL",
        "PARTITION",
        "SUBPARTITION",
        "PERIOD",
        "SCOPE",
    }
    | {"OVERFLOW", "REF"}
)
_UNSEEN = frozenset({"TRUNCATE", "EXCHANGE", "DROP"})  # of a partition: rows that the log does not show
_RECYCLED = "BIN$"


@dataclass(frozen=True)
class CreateTable:
    """filled: AS SELECT, whose rows the log need not have."""

    filled: bool


@dataclass(frozen=True)
class DropTable:
    """With or without PURGE."""


@dataclass(frozen=True)
class TruncateTable:
    """All rows."""


@dataclass(frozen=True)
class RenameTable:
    """new: its schema is the old one's."""

    new: str


@dataclass(frozen=True)
class ReturnedTable:
    """FLASHBACK TABLE: other rows, unseen."""


@dataclass(frozen=True)
class AlterTable:
    """added: columns; fills: one of them has a DEFAULT, or a change of a column may change its values.

    unseen: rows come or go that the log does not show.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    fills: bool = False
    unseen: bool = False


Statement = CreateTable | DropTable | TruncateTable | RenameTable | ReturnedTable | AlterTable


@dataclass(frozen=True)
class _Token:
    """word: in capitals, of a name without quotes; name: as the server stores it."""

    word: str
    name: str = ""


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found["quoted"]:
            yield _Token("", found["quoted"])
        elif found["word"]:
            yield _Token(found["word"].upper(), found["word"].upper())
        elif found["text"] or found["number"] or found["sign"]:
            yield _Token(found["sign"] or "'")


def parse(text: str) -> Statement | None:  # noqa: PLR0911 - a case each
    """None: it is of no table, or changes neither its rows nor its columns."""
    tokens = [one for one in _tokens(text.replace("\0", " ")) if one.word != ";"]
    words = [one.word for one in tokens]
    match words[:1]:
        case ["CREATE"]:
            return _create(words)
        case ["DROP"] if words[1:2] == ["TABLE"]:
            return DropTable()
        case ["TRUNCATE"] if words[1:2] == ["TABLE"]:
            return TruncateTable()
        case ["FLASHBACK"] if words[1:2] == ["TABLE"]:
            return ReturnedTable()
        case ["RENAME"] if "TO" in words:
            return _renamed(tokens[words.index("TO") + 1 :])
        case ["ALTER"] if words[1:2] == ["TABLE"]:
            return _alter(tokens[_after_name(tokens, 2) :])
    return None


def _create(words: Sequence[str]) -> CreateTable | None:
    head = words[: words.index("(")] if "(" in words else words
    if "TABLE" not in head[:6] or "INDEX" in head or "VIEW" in head or "TRIGGER" in head:
        return None
    depth = 0
    for place, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if not depth and word == "AS" and words[place + 1 : place + 2] in (["SELECT"], ["WITH"], ["("]):
            return CreateTable(filled=True)
    return CreateTable(filled=False)


def _renamed(tokens: Sequence[_Token]) -> RenameTable | None:
    name = tokens[_after_name(tokens, 0) - 1].name if tokens else ""
    return RenameTable(name) if name and not name.startswith(_RECYCLED) else None


def _after_name(tokens: Sequence[_Token], at: int) -> int:
    """Behind `name` or `schema.name`."""
    return at + 3 if at + 1 < len(tokens) and tokens[at + 1].word == "." else at + 1


def _alter(tokens: Sequence[_Token]) -> Statement | None:
    words = [one.word for one in tokens]
    if words[:2] == ["RENAME", "TO"]:
        return _renamed(tokens[2:])
    added: list[str] = []
    dropped: list[str] = []
    renamed: dict[str, str] = {}
    fills = unseen = False
    for verb, clause in _clauses(tokens):
        rest = [one.word for one in clause]
        if "PARTITION" in rest[:1] or "SUBPARTITION" in rest[:1]:
            unseen |= verb in _UNSEEN
        elif verb == "ADD" and rest[:1] != ["("] and rest[:1] and rest[0] in _NO_COLUMN:
            continue
        elif verb == "ADD":
            names = _listed(clause)
            added += names
            fills |= bool(names) and "DEFAULT" in rest
        elif verb == "MODIFY":
            fills |= "DEFAULT" in rest and "NULL" in rest
        elif verb in {"DROP", "UNUSED"} and (rest[:1] == ["COLUMN"] or rest[:1] == ["("]):
            inside = clause[1:] if rest[0] == "COLUMN" else clause
            dropped += _listed(inside) if rest[0] == "(" else [inside[0].name] if inside else []
        elif verb == "RENAME" and rest[:1] == ["COLUMN"] and "TO" in rest:
            renamed[clause[1].name] = clause[rest.index("TO") + 1].name
    return AlterTable(tuple(added), tuple(dropped), renamed, fills, unseen)


_VERBS = frozenset(
    {"ADD", "DROP", "MODIFY", "RENAME", "TRUNCATE", "EXCHANGE", "SET", "MOVE", "SPLIT", "MERGE", "SHRINK"}
)


def _clauses(tokens: Sequence[_Token]) -> Iterator[tuple[str, list[_Token]]]:
    """Verb and what follows it, outside of parentheses."""
    depth, verb, clause = 0, "", list[_Token]()
    for place, one in enumerate(tokens):
        before = tokens[place - 1].word if place else ""
        if not depth and one.word in _VERBS and before not in {"(", ",", "ON", "COLUMN", "CONSTRAINT"}:
            if verb:
                yield verb, clause
            verb, clause = one.word, []
        elif verb == "SET" and not clause and one.word == "UNUSED":
            verb = "UNUSED"
        else:
            clause.append(one)
        depth += (one.word == "(") - (one.word == ")")
    if verb:
        yield verb, clause


def _listed(clause: Sequence[_Token]) -> list[str]:
    """Names of columns: the first word of each part of a list in parentheses; without them, the first word."""
    if not clause or clause[0].word != "(":
        return [clause[0].name] if clause and clause[0].name else []
    names, depth, expected = list[str](), 0, False
    for one in clause:
        depth += (one.word == "(") - (one.word == ")")
        if expected and one.name and one.word not in _NO_COLUMN:
            names.append(one.name)
        expected = depth == 1 and one.word in {"(", ","}
        if not depth:
            break
    return names


def is_recycled(table: TableId) -> bool:
    """Is it in the recycle bin?"""
    return table.name.startswith(_RECYCLED)
