"""What drivers say of a failed login holds no password, wherever one looks (invariant 8): hidden at the driver, not by
a search.
"""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from replicator.errors import ConfigurationError, SourceAuthenticationFailed
from replicator.sources.registry import source_kind
from testing.servers.mysql import EmbeddedMySQL
from webapp.console.definitions.document import parsed
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource

WRONG = ("Zq9-wrong", "пароль-Zq9", "Zq9'; quote", "Zq9@host/x?y=1")


def texts(error: BaseException) -> str:
    """All that a log could have of it."""
    chain, found = error, ""
    while chain is not None:
        found += repr(chain) + repr(chain.args) + repr(vars(chain))
        chain = chain.__cause__ or chain.__context__  # type: ignore[assignment]
    return found + "".join(traceback.format_exception(error))


def refused(kind: str, config: dict[str, Any]) -> None:
    source = source_kind(kind).open(config)
    with pytest.raises(SourceAuthenticationFailed) as told:
        source.catalog()
    assert "Zq9" not in texts(told.value)
    lines = source.check()
    source.close()
    assert lines[0].status == "failed"
    assert "Zq9" not in repr(lines)


@pytest.mark.parametrize("password", WRONG)
def test_of_mariadb_and_mysql(mariadb: EmbeddedMariaDB, mysql: EmbeddedMySQL, password: str) -> None:
    for server in (mariadb, mysql):
        refused("mysql", {**server.address, "password": password})


@pytest.mark.parametrize("password", WRONG)
def test_of_postgres(postgres_source: EmbeddedPostgresSource, password: str) -> None:
    at = {
        "host": postgres_source.host,
        "port": postgres_source.port,
        "user": postgres_source.user,
        "database": "postgres",
    }
    refused("postgres", {**at, "password": password})


@pytest.mark.parametrize(
    "file",
    [
        "connections: [{password: Zq9-clear, x: [}]", 'password: "Zq9-clear', "password: Zq9-clear: b: c",
        "password: Zq9\n\tx: 1",
        "x: !!python/object:x.y {password: Zq9-clear}", "x: {password: Zq9-clear}\n y: 1", "password: Zq9-clear\nb: *b",
        "password: %Zq9",
    ],
)  # fmt: skip
def test_of_a_file_that_is_no_yaml(file: str) -> None:
    with pytest.raises(ConfigurationError, match="line ") as told:
        parsed(file, {})
    assert "Zq9" not in texts(told.value).replace(file, "")
    assert "Zq9" not in told.value.message
