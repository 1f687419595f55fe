"""The sources under test, by the name that `--source` has."""

from __future__ import annotations

from collections.abc import Mapping

from tests.crash.sources.base import SourceUnderTest, copied
from tests.crash.sources.mysql import MariaDB, MySQL
from tests.crash.sources.oracle import Oracle
from tests.crash.sources.postgres import Postgres
from tests.crash.sources.sqlserver import SqlServer

SOURCES: Mapping[str, type[MariaDB | MySQL | Postgres | SqlServer | Oracle]] = {
    "mariadb": MariaDB, "mysql": MySQL, "postgres": Postgres, "sqlserver": SqlServer, "oracle": Oracle,
}  # fmt: skip
__all__ = ["SOURCES", "SourceUnderTest", "copied"]
