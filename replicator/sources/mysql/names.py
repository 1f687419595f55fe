"""How a server compares names.

Databases and tables: as `lower_case_table_names` says.  0: exactly.  1: the server stores and logs lower case,
statements carry what was typed.  2: it stores what was typed and compares in lower case.  Under 1 and 2 the lower case
is the name here.
Columns: never with their case.
"""

from __future__ import annotations

import unicodedata
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from replicator.model.identifiers import TableId
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.mysql.connection import Connection, translated
from replicator.sources.mysql.ddl import parser

T = TypeVar("T")

# Identifiers are utf8mb3_general_ci, whose letters are those of Unicode 3.0.
_KNOWN = unicodedata.ucd_3_2_0
_OF_UNICODE_3_2 = frozenset(
    "\u0220\u03d8\u03f4\u048a\u04c5\u04c9\u04cd\u0500\u0502\u0504\u0506\u0508\u050a\u050c\u050e"
)
_known: WeakKeyDictionary[Connection, NameRule] = WeakKeyDictionary()


def lowered(name: str) -> str:
    """A name in lower case, letter by letter, as the servers do it."""
    return name.lower() if name.isascii() else "".join(map(_lowered, name))


def _lowered(letter: str) -> str:
    low = letter.lower()[0]
    if low == letter or letter in _OF_UNICODE_3_2 or "Cn" in (_KNOWN.category(letter), _KNOWN.category(low)):
        return letter
    return low


LOWER_CASE_NAMES = NameRule(lowered)


def names_of(connection: Connection) -> NameRule:
    """The rule of the server behind this connection, asked once."""
    rule = _known.get(connection)
    if rule is None:
        with translated("The source"), connection.cursor() as cursor:
            cursor.execute("SELECT @@lower_case_table_names")
            rule = LOWER_CASE_NAMES if int((cursor.fetchone() or (0,))[0]) else EXACT_NAMES
        _known[connection] = rule
    return rule


def columns_left_out(tables: TableSet, table: TableId) -> frozenset[str]:
    """In lower case, to be compared with `lowered` names."""
    return frozenset(map(lowered, tables.columns_left_out(table)))


def folded(statement: T, names: NameRule) -> T:
    """The statement with every name of a database or table in it as the rule has it."""
    return cast("T", _folded(statement, names)) if names.folds else statement


def _folded(found: Any, names: NameRule) -> Any:
    match found:
        case TableId():
            return names.table(found)
        case parser.CreateDatabase(name) | parser.DropDatabase(name):
            return replace(found, name=names.name(name))
        case tuple() | frozenset():
            return type(found)(_folded(one, names) for one in found)
        case _ if is_dataclass(found) and not isinstance(found, type):
            changed = {one.name: _folded(getattr(found, one.name), names) for one in fields(found)}
            return replace(found, **changed)
    return found
