"""A client with a token, and a source kind that needs no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from replicator.errors import ConditionRefused, SourceUnreachable, TableError, UnsupportedType
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.sources import registry
from replicator.sources.base import CheckResult, CheckStatus, DatabaseInfo, FormField, KeyRange, TableInfo
from webapp.accounts import services as accounts
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.replicators import services as replicators
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import SelectionEntry

SECRET = "s3cret-Passw0rd"
TABLES = [TableId("shop", name) for name in ("customers", "items", "log", "orders", "strange")]


class FakeCatalog:
    def databases(self) -> list[DatabaseInfo]:
        return [DatabaseInfo("shop", len(TABLES), 1000)]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        found = [t for t in TABLES if database in {None, t.database} and search in t.name]
        page = [TableInfo(t, 10, 100, "" if t.name == "log" else "primary") for t in found]
        return page[offset : offset + limit], len(found)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        return {info.table: info for info in self.tables()[0] if info.table in tables}

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        del table
        if "nothing" in rows.condition:
            raise ConditionRefused("The source rejected the request: there is no column nothing.")

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        columns = (
            Column("id", types.INT, nullable=False, source_type="int(11)"),
            Column("at", types.TIMESTAMP_NTZ, nullable=True, source_type="datetime"),
        )
        found: dict[TableId, TableSchema | TableError] = {
            t: TableSchema(t, columns, () if t.name == "log" else ("id",)) for t in tables if t in TABLES
        }
        if (strange := TableId("shop", "strange")) in found:
            found[strange] = UnsupportedType("The type hologram of shop.strange.h is not known.")
        return found


class FakeSource:
    def __init__(self, config: Mapping[str, Any]) -> None:
        if config.get("host") == "nowhere":
            message = f"cannot connect to nowhere with password={config.get('password')}"
            raise SourceUnreachable(message)
        self.config = config

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        del tables
        good = self.config.get("password") == SECRET
        detail = f"as {self.config['user']} with password={self.config.get('password')}"
        return [
            CheckResult(
                "reachable", "Server reachable", CheckStatus.OK if good else CheckStatus.FAILED, detail, "SET x = 1;"
            ),
            CheckResult("tls", "TLS", CheckStatus.WARNING, "not encrypted", "REQUIRE SSL"),
        ]

    def names(self) -> NameRule:
        return EXACT_NAMES

    def catalog(self) -> FakeCatalog:
        return FakeCatalog()

    def close(self) -> None:
        pass


FORM = (
    FormField("host", "Host"),
    FormField("port", "Port", kind="number", default="1"),
    FormField("user", "User"),
    FormField("password", "Password", kind="password", secret=True),
)


@pytest.fixture(autouse=True)
def fake_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = registry.SourceKind("fake", "Fake", FakeSource, lambda _: None, FORM, "# Guide")  # type: ignore[arg-type]
    monkeypatch.setitem(registry.KINDS, "fake", kind)


@pytest.fixture(autouse=True)
def static_folder() -> None:
    """WhiteNoise warns where there is none, and a warning is an error here."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_superuser("ada")


@pytest.fixture
def client(user: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {accounts.create_token(user=user, name='tests')}")
    return client


@pytest.fixture
def connection(db: None) -> Connection:
    config = {"host": "h", "user": "u", "password": SECRET}
    return connections.create_connection(name="shop db", kind="fake", config=config)


@pytest.fixture
def replicator(connection: Connection, user: User) -> Replicator:
    selection = [SelectionEntry("shop", name) for name in ("customers", "orders")]
    return replicators.create_replicator(name="shop", connection=connection, selection=selection, user=user)


@pytest.fixture
def answers(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every answer's text; none of them may hold the secret (invariant 8)."""
    texts: list[str] = []
    request = client.request

    def remember(**kwargs: Any) -> Any:
        response = request(**kwargs)
        texts.append("" if response.streaming else response.content.decode())
        return response

    monkeypatch.setattr(client, "request", remember)
    yield texts
    assert not [text for text in texts if SECRET in text]
