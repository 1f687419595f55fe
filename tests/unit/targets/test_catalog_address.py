"""Java reaches the metadata database as DATABASE_URL says: under the same TLS, with the same options."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError
from webapp import environment


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGSSLMODE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY", "PGCHANNELBINDING", "PGREQUIREAUTH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://u:p@h/db", "jdbc:postgresql://h:5432/db"),
        ("postgresql://u:p@h:6432/d%20b", "jdbc:postgresql://h:6432/d%20b"),
        ("postgresql://u@[::1]:1/db", "jdbc:postgresql://[::1]:1/db"),
        ("postgresql:///db", "jdbc:postgresql://localhost:5432/db"),
        ("postgresql:///db?host=a,b&port=1,2", "jdbc:postgresql://a:1,b:2/db"),
        (
            "postgresql://h/db?sslmode=verify-full&sslrootcert=/etc/ca%20s.pem&sslcert=/c.pem&sslkey=/k.pem",
            "jdbc:postgresql://h:5432/db?sslmode=verify-full&sslrootcert=%2Fetc%2Fca%20s.pem&sslcert=%2Fc.pem&sslkey=%2Fk.pem",
        ),
        (
            "postgresql://h/db?sslmode=verify-full&sslrootcert=system",
            "jdbc:postgresql://h:5432/db?sslmode=verify-full&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory",
        ),
        (
            "postgresql://h/db?channel_binding=require&require_auth=scram-sha-256&gssencmode=disable&connect_timeout=9",
            "jdbc:postgresql://h:5432/db?channelBinding=require&requireAuth=scram-sha-256&gssEncMode=disable&connectTimeout=9",
        ),
        (
            "postgresql://h/db?target_session_attrs=read-write&keepalives=1&keepalives_idle=9&load_balance_hosts=random",
            "jdbc:postgresql://h:5432/db?targetServerType=primary&tcpKeepAlive=true&loadBalanceHosts=true",
        ),
        ("postgresql://h/db?options=-c%20a%3Db&application_name=t", "jdbc:postgresql://h:5432/db?options=-c%20a%3Db&ApplicationName=t"),
    ],
)  # fmt: skip
def test_the_address_for_java_says_what_database_url_says(url: str, address: str) -> None:
    assert environment.jdbc_url(url) == address


def test_libpqs_variables_count_where_the_address_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-ca")
    monkeypatch.setenv("PGSSLROOTCERT", "/ca.pem")
    assert environment.jdbc_url("postgresql://h/d").endswith("?sslmode=verify-ca&sslrootcert=%2Fca.pem")
    assert environment.jdbc_url("postgresql://h/d?sslmode=verify-full").startswith(
        "jdbc:postgresql://h:5432/d?sslmode=verify-full&"
    )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://h/db?sslcrl=/x", "sslcrl"),
        ("postgresql://h/db?ssl_min_protocol_version=TLSv1.3", "ssl_min_protocol_version"),
        ("postgresql://h/db?sslpassword=x", "sslpassword"),
        ("postgresql://h/db?target_session_attrs=odd", "target_session_attrs"),
        ("postgresql:///db?host=/run/postgresql", "TCP"),
    ],
)
def test_what_java_cannot_hold_is_refused_and_not_dropped(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        environment.jdbc_url(url)


def test_the_catalog_in_the_jvm_is_reached_so() -> None:
    from webapp.destinations import lakes
    from webapp.worker.run import spark

    pool = spark.spark(lakes.built_in_lake("postgresql://u:p@h/db?sslmode=verify-full"))
    found = pool.config.catalog
    assert found["uri"] == "jdbc:postgresql://h:5432/db?sslmode=verify-full"
    assert (found["jdbc.user"], found["jdbc.password"]) == ("u", "p")
