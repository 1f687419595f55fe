"""A place on the test run's emulator of Oracle, and the spelling of the contract's statements there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Self

import pytest

from replicator.sources import oracle
from replicator.sources.oracle.config import OracleConfig
from replicator.sources.oracle.connection import connect
from tests.contract.place import Place

_TYPES = (
    (r"\bbigint\b", "NUMBER(18)"),
    (r"\bsmallint\b", "NUMBER(5)"),
    (r"\bint\b", "NUMBER(9)"),
    (r"\b(?:numeric|decimal)\(", "NUMBER("),
    (r"\bvarchar\(", "VARCHAR2("),
    (r"\bdouble precision\b", "BINARY_DOUBLE"),
    (r"\btext\b", "CLOB"),
    (r"\bboolean\b", "NUMBER(1)"),
    (r"\bTRUE\b", "1"),
    (r"\bFALSE\b", "0"),
    (r"\bADD COLUMN\b", "ADD"),
)
_NAMES = re.compile(r"(?<![\w.\"])(id|extra|[abcdfnsvwx])(?![\w.\"(])")
_VALUES = re.compile(r"(INSERT INTO \S+(?: \([^)]*\))?) VALUES (\(.*\))", re.DOTALL)
_DAY = re.compile(r"'\d{4}-\d\d-\d\d'")
_LITERAL = re.compile(r"'(?:[^']|'')*'|-?[\d.]+(?:e-?\d+)?|NULL|(?P<between>[(),\s]+)")
MANY = 1_000
_SESSION = "ALTER SESSION SET NLS_DATE_FORMAT = 'YYYY-MM-DD' NLS_NUMERIC_CHARACTERS = '.,' TIME_ZONE = '+00:00'"


def spelled(statement: str, name: str) -> str:
    """In Oracle's words, with the contract's names in small letters."""
    parts = re.split(r"('(?:[^']|'')*')", statement)
    for place in range(0, len(parts), 2):
        part = parts[place]
        for pattern, there in _TYPES:
            part = re.sub(pattern, there, part)
        if "SAVEPOINT" not in part:
            part = _NAMES.sub(r'"\1"', part)
        parts[place] = re.sub(r"@\.(\w+)", rf'"{name}"."\1"', part)
    return "".join(parts)


def rows_of(text: str) -> list[list[str]]:
    """`(1, 'a'), (2, NULL)` as literals."""
    rows: list[list[str]] = []
    for found in _LITERAL.finditer(text):
        if "(" in (found["between"] or ""):
            rows.append([])
        if found["between"] is None:
            rows[-1].append(f"DATE {found[0]}" if _DAY.fullmatch(found[0]) else found[0])
    return rows


class OraclePlace(Place):
    kind = oracle.KIND
    wrong = ({"password": "s3cret!"}, {"port": 1})
    decodes_the_past = False
    many = 20_000  # several of LogMiner's frames; the emulator is slow
    settings: ClassVar[Mapping[str, str]] = {"lob_columns": "reselect"}

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        server = request.getfixturevalue("oracle_source")
        session = server.connect()
        with session.cursor() as cursor:
            cursor.execute(_SESSION)
        return cls({**server.address, **cls.settings}, session)

    @classmethod
    def live(cls, settings: Mapping[str, Any]) -> Self:
        """By the product's own connection: in the pluggable database of the settings, if any."""
        session = connect(OracleConfig.parse(settings), settings=_SESSION)
        return cls(settings, session)

    def create(self) -> None:
        self._execute(f'CREATE USER "{self.name}" IDENTIFIED BY "a1" QUOTA UNLIMITED ON users')

    def drop(self) -> None:
        self._execute(f'DROP USER "{self.name}" CASCADE')

    def day(self, text: str) -> Any:
        return datetime.fromisoformat(text)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._execute(spelled(statement, self.name))
        self.session.commit()

    def rename(self, old: str, new: str) -> None:
        self.run(f'ALTER TABLE @.{old} RENAME TO "{new}"')

    def undo(self, *statements: str) -> None:
        for statement in statements:
            self._execute(spelled(statement, self.name))
        self.session.rollback()

    def _execute(self, statement: str) -> None:
        """Before 23ai VALUES has one row: more than MANY rows become INSERT … SELECT, fewer one statement each."""
        with self.session.cursor() as cursor:
            several = _VALUES.fullmatch(statement)
            rows = rows_of(several[2]) if several else []
            if len(rows) > MANY:  # the contract's many are (n, 'row n')
                first = int(rows[0][0]) - 1
                assert rows[-1] == [str(first + len(rows)), f"'row {first + len(rows)}'"]
                table = statement.partition(" VALUES ")[0]
                cursor.execute(
                    f"{table} SELECT LEVEL + {first}, 'row ' || (LEVEL + {first}) FROM dual"
                    f" CONNECT BY LEVEL <= {len(rows)}"
                )
                return
            single = [f"{several[1]} VALUES ({', '.join(row)})" for row in rows] if several else [statement]
            for one in single:
                cursor.execute(one)


class OracleKeptPlace(OraclePlace):
    """Tidemark keeps the rows of open transactions, and LogMiner does not."""

    settings: ClassVar[Mapping[str, str]] = {**OraclePlace.settings, "committed": "tidemark"}
