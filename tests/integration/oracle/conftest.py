"""One emulator of Oracle for these tests: they restart it and take its logs away."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import oracledb
import pytest

from testing.servers.oracle.server.embedded import EmbeddedOracle
from tests.contract.oracle import OraclePlace

KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20))"
NAMES = itertools.count()
MINER = "LOGMINING, SELECT_CATALOG_ROLE, EXECUTE_CATALOG_ROLE"


class Schema:
    """A user and its schema; `connection` is that user's."""

    def __init__(self, server: EmbeddedOracle, name: str) -> None:
        self.server, self.name = server, name
        self.connection = server.connect(name, "secret")

    def run(self, sql: str, *binds: Any) -> Any:
        """Rows of a query, the count of a change."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, list(binds))
            return cursor.fetchall() if cursor.description else cursor.rowcount

    def one(self, sql: str, *binds: Any) -> Any:
        (row,) = self.run(sql, *binds)
        return row[0] if len(row) == 1 else row

    def refused(self, sql: str, *binds: Any) -> str:
        """The error's code: ORA-00942."""
        with pytest.raises(oracledb.DatabaseError) as caught:
            self.run(sql, *binds)
        return str(caught.value.args[0].full_code)

    def scn(self) -> int:
        return int(self.one("SELECT current_scn FROM v$database"))

    def mined(self, first: int, *, committed: bool = True, extra: str = "") -> list[dict[str, Any]]:
        """V$LOGMNR_CONTENTS of all online logs after an SCN, but for other users' rows."""
        files = self.run(
            "SELECT f.member FROM v$log l JOIN v$logfile f ON f.group# = l.group# WHERE l.next_change# > :1"
            " ORDER BY l.sequence#", first,
        )  # fmt: skip
        added = " ".join(
            f"DBMS_LOGMNR.ADD_LOGFILE(LOGFILENAME => '{name}', OPTIONS => DBMS_LOGMNR.{'ADDFILE' if at else 'NEW'});"
            for at, (name,) in enumerate(files)
        )
        options = "DBMS_LOGMNR.DICT_FROM_ONLINE_CATALOG" + " + DBMS_LOGMNR.COMMITTED_DATA_ONLY" * committed + extra
        self.run(f"BEGIN {added} DBMS_LOGMNR.START_LOGMNR(STARTSCN => {first + 1}, OPTIONS => {options}); END;")
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM v$logmnr_contents WHERE username = '{self.name}'")
            names = [one[0] for one in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def changes(self, first: int, **how: Any) -> list[str]:
        """SQL_REDO of rows alone."""
        return [
            row["SQL_REDO"] for row in self.mined(first, **how) if row["OPERATION"] in ("INSERT", "UPDATE", "DELETE")
        ]


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedOracle]:
    server = EmbeddedOracle(tmp_path_factory.mktemp("oracle"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def schema(oracle: EmbeddedOracle) -> Iterator[Schema]:
    """Of a user who may mine the log."""
    name = f"U{next(NAMES)}"
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE USER {name} IDENTIFIED BY secret")
        cursor.execute(f"GRANT CONNECT, RESOURCE, {MINER} TO {name}")
        cursor.execute("ALTER DATABASE ADD SUPPLEMENTAL LOG DATA")
    made = Schema(oracle, name)
    yield made
    made.connection.close()


@pytest.fixture
def minimal(oracle: EmbeddedOracle) -> OraclePlace:
    """A schema on a server with minimal supplemental logging."""
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute("ALTER DATABASE ADD SUPPLEMENTAL LOG DATA")
    place = OraclePlace(oracle.address, oracle.connect())
    place.run(KEYED)
    return place
