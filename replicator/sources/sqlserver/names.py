"""How a database compares the names of schemas, tables and columns: by its collation.

Under a case-insensitive collation, names are kept here in lower case.  Turkish and Azeri collations have other pairs of
letters: there I is the capital of dotless i.
"""

from __future__ import annotations

from replicator.model.identifiers import TableId
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources.sqlserver.connection import SqlServerSession

_TURKISH = ("turkish", "azeri", "sql_latin1_general_cp1254")
_DOTLESS = str.maketrans({"I": "\u0131", "\u0130": "i"})


def lowered(name: str) -> str:
    """Letter by letter, as the server does it."""
    return name.lower() if name.isascii() else "".join(letter.lower()[0] for letter in name)


def lowered_turkish(name: str) -> str:
    """The same under a Turkish collation."""
    return lowered(name.translate(_DOTLESS))


def name_rule(collation: str) -> NameRule:
    """Of a database with this collation (`Latin1_General_CS_AS`)."""
    parts = collation.lower().split("_")
    if "cs" in parts or any(part.startswith("bin") for part in parts):
        return EXACT_NAMES
    return NameRule(lowered_turkish if collation.lower().startswith(_TURKISH) else lowered)


def names_of(connection: SqlServerSession) -> NameRule:
    """The rule of the database that the connection is in, asked once."""
    if connection.names is None:
        ((collation,),) = connection.rows(
            "SELECT CONVERT(nvarchar(128), DATABASEPROPERTYEX(DB_NAME(), 'Collation'))", connection.where
        )
        connection.names = name_rule(str(collation or ""))
    return connection.names


def columns_left_out(tables: TableSet, table: TableId, names: NameRule) -> frozenset[str]:
    """Under the rule, to be compared with names of columns under it."""
    return frozenset(map(names.name, tables.columns_left_out(table)))
