"""Oracle's emulator as a source under test."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import oracledb

from testing.servers.oracle.server.embedded import EmbeddedOracle
from testing.workload.oracle.driver import OracleConnection
from tests.crash.faults.errors import TEXT
from tests.crash.faults.proxy import Proxy
from tests.crash.sources.base import SourceUnderTest, copied

LOG_BYTES = 300_000  # so small that logs are switched and archived while a history is played
ALL_LOGGED = "ALTER DATABASE ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS"
# https://docs.oracle.com/en/error-help/db/: locks, resources, limits, broken blocks and files, rights, syntax, sessions
NUMBERS = (
    1, 28, 54, 60, 257, 376, 600, 603, 604, 904, 942, 1000, 1012, 1013, 1031, 1033, 1034, 1089, 1092, 1113, 1284, 1291,
    1306, 1323, 1410, 1466, 1476, 1536, 1555, 1578, 1652, 1722, 2049, 2396, 3113, 3135, 4020, 4021, 4030, 4031, 4036,
    4068, 6502, 6550, 7445, 8103, 8177, 8181, 12801, 12805, 12899, 20000, 22288, 28000, 30006, 30036, 65054,
)  # fmt: skip
TYPES = {"BIGINT": "NUMBER(18)", "INT": "NUMBER(9)"}
_WORD = re.compile(r"\b(?:BIGINT|INT|witness_log|witness|id|v|amount|stamp|t|n)\b|%s")
_ROWS = re.compile(r'INSERT (INTO "witness_log" VALUES) (\([^()]*\)(?:, \([^()]*\))+)')


def _all(match: re.Match[str]) -> str:
    """Several rows, as Oracle 19c takes them."""
    rows = re.findall(r"\([^()]*\)", match[2])
    return f"INSERT ALL {' '.join(f'{match[1]} {row}' for row in rows)} SELECT * FROM dual"


class _Connection(OracleConnection):
    """Takes the witness tables' statements as they are written for the others, with names in lower case."""

    def execute(self, cursor: Any, statement: str, rows: Sequence[Any] | None = None) -> None:
        count = 0

        def spelled(match: re.Match[str]) -> str:
            nonlocal count
            if match[0] == "%s":
                count += 1
                return f":{count}"
            return TYPES.get(match[0], f'"{match[0]}"')

        text = _WORD.sub(spelled, statement) if "witness" in statement else statement
        super().execute(cursor, _ROWS.sub(_all, text), rows)


class Oracle(SourceUnderTest):
    """Each history has a separate user, whose schema holds its tables."""

    dialect = "oracle"
    kind = "oracle"
    errors: ClassVar[tuple[type[Exception], ...]] = (oracledb.Error,)
    tls_off = "off"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        """There is one version, and names have their case."""
        del version, caseless
        self.server = EmbeddedOracle(folder, log_bytes=LOG_BYTES)

    def connect(self, name: str | None = None) -> Any:
        connection = self.server.connect()
        connection.autocommit = True
        if name is None:
            return connection
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER SESSION SET CURRENT_SCHEMA = "{name}"')
        return _Connection(connection)

    def make(self, name: str) -> None:
        self.execute(f'CREATE USER "{name}" IDENTIFIED BY "{name}"', ALL_LOGGED)

    def drop(self, name: str) -> None:
        self.execute(f'DROP USER "{name}" CASCADE')

    def restore_data(self) -> None:
        """As incomplete recovery does it, which ends with OPEN RESETLOGS."""
        self.server.stop()
        copied(self._copy, self._data)
        self.server.reset_logs()
        self.server.start()

    def answer_errors(self, proxy: Proxy, statements: int, chance: random.Random, share: float = 1.0) -> None:
        """By the emulator: the proxy does not speak its protocol."""
        del proxy
        wanted = ["tidemark", statements, share, chance.randrange(1000), TEXT, *NUMBERS]
        self.execute(f"ALTER SYSTEM SET answer_errors = '{','.join(map(str, wanted))}'")

    def tables(self, name: str) -> set[str]:
        return self._named("SELECT table_name FROM all_tables WHERE owner = :1", name)

    def unfollowable(self, name: str) -> set[str]:
        """With large objects, and without a key to read them again by: as where names were to be swapped, and a table
        was busy, so that a statement meant for the one adds such a column to the other.
        """
        large = "data_type IN ('BLOB', 'CLOB', 'NCLOB', 'XMLTYPE')"
        having = self._named(f"SELECT table_name FROM all_tab_columns WHERE owner = :1 AND {large}", name)
        keyed = "SELECT table_name FROM all_constraints WHERE owner = :1 AND constraint_type IN ('P', 'U')"
        return having - self._named(keyed, name)

    def _named(self, query: str, name: str) -> set[str]:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(query, [name])
            return {row[0] for row in cursor.fetchall()}

    def one_of(self, verb: str, table: str, where: str) -> str:
        del table
        return f"{verb} WHERE {where} AND ROWNUM = 1"

    def log_files(self) -> list[Path]:
        return sorted(self.server.redo.glob("*/*"))

    def address(self, name: str, port: int) -> dict[str, Any]:
        del name
        return {**self.server.address, "port": port, "tls": self.tls_off, "lob_columns": "reselect"}
