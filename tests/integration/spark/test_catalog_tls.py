"""What DATABASE_URL says of TLS holds in the JVM too: with the real driver and a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from py4j.protocol import Py4JJavaError

from replicator.targets.iceberg.jvm import jvm
from tests.integration.spark.lake import Lake
from webapp import environment
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = [pytest.mark.integration, pytest.mark.spark]


@pytest.fixture
def answered(lake: Lake, postgres_tls: tuple[EmbeddedPostgresSource, str], tmp_path: Path) -> Any:
    """answered(host, options) → does the server's session have TLS?  Raises what the driver says."""
    server, certificate = postgres_tls
    (tmp_path / "ca.pem").write_text(certificate)
    java = jvm.running(lake.config).jvm.java

    def asked(host: str, **options: str) -> bool:
        known = {name: value.replace("CA", str(tmp_path / "ca.pem")) for name, value in options.items()}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in known.items())
        url = environment.jdbc_url(f"postgresql://{host}:{server.port}/{server.database}?{query}")
        login = java.util.Properties()
        login.setProperty("user", server.user)
        login.setProperty("password", server.password)
        connection = java.sql.DriverManager.getConnection(url, login)
        try:
            rows = connection.createStatement().executeQuery("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            return bool(rows.next() and rows.getBoolean(1))
        finally:
            connection.close()

    return asked


def test_a_verified_server_is_taken(answered: Any) -> None:
    assert answered("localhost", sslmode="verify-full", sslrootcert="CA")
    assert answered("127.0.0.1", sslmode="verify-ca", sslrootcert="CA", channel_binding="require", connect_timeout="5")
    assert not answered("127.0.0.1", sslmode="disable")


@pytest.mark.parametrize(
    ("host", "options"),
    [
        ("127.0.0.1", {"sslmode": "verify-full", "sslrootcert": "CA"}),  # another name
        ("localhost", {"sslmode": "verify-full", "sslrootcert": "system"}),  # another authority
        ("localhost", {"sslmode": "disable", "require_auth": "none"}),
    ],
)
def test_another_server_is_refused(answered: Any, host: str, options: dict[str, str]) -> None:
    with pytest.raises(Py4JJavaError):
        answered(host, **options)
