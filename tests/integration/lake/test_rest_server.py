"""The embedded REST catalog and the front before it do what the tests of catalogs rely on."""

from __future__ import annotations

import email
import http.client
import signal
from collections.abc import Callable
from dataclasses import replace

import psutil
import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, OAuthError, UnauthorizedError

from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import OAuth, Request, RestFront, SigV4

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def client(uri: str, **properties: str) -> RestCatalog:
    catalog = RestCatalog("test", uri=uri, **properties)
    catalog.create_namespace_if_not_exists("shop")
    return catalog


def test_a_killed_server_goes_on_with_its_tables(rest_catalog: EmbeddedRestCatalog) -> None:
    client(rest_catalog.uri).create_table("shop.kept", ROWS.schema).append(ROWS)
    process = psutil.Process(rest_catalog.process)
    rest_catalog.stop(signal.SIGKILL)
    assert not process.is_running()
    rest_catalog.start()
    table = client(rest_catalog.uri).load_table("shop.kept")
    assert table.scan().to_arrow() == ROWS
    assert table.location().startswith(rest_catalog.warehouse)


def test_who_has_no_right_token_is_refused(front: Callable[..., RestFront]) -> None:
    server = front(token="right", oauth=OAuth({"me": "secret"}, scope="catalog"))
    tokens = {"oauth2-server-uri": f"{server.uri}/v1/oauth/tokens"}
    client(server.uri, token="right", **tokens)
    with pytest.raises(UnauthorizedError, match="wrong or old"):
        client(server.uri, token="wrong", **tokens)
    with pytest.raises(OAuthError, match="invalid_client"):
        client(server.uri, credential="me:wrong", **tokens)
    assert client(server.uri, credential="me:secret", **tokens).namespace_exists("shop")
    form = {"grant_type": "client_credentials", "scope": "catalog"}
    token = requests.post(tokens["oauth2-server-uri"], form, auth=("me", "secret"), timeout=10).json()["access_token"]
    client(server.uri, token=token, **tokens)
    server.expire()
    with pytest.raises(UnauthorizedError, match="wrong or old"):
        client(server.uri, token=token, **tokens)


def test_a_signature_is_verified(front: Callable[..., RestFront]) -> None:
    """The one that AWS's documentation computes."""
    headers = email.message_from_string(
        "Host: iam.amazonaws.com\nContent-Type: application/x-www-form-urlencoded; charset=utf-8\n"
        "X-Amz-Date: 20150830T123600Z\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request,"
        " SignedHeaders=content-type;host;x-amz-date,"
        " Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\n\n"
    )
    asked = Request("GET", "/?Action=ListUsers&Version=2010-05-08", headers, b"")
    sign = SigV4("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", service="iam")
    assert not sign.refusal(asked)
    assert sign.refusal(replace(asked, method="POST")) == "The signature is wrong"
    assert "scope" in replace(sign, service="glue").refusal(asked)
    assert requests.get(f"{front(sigv4=sign).uri}/v1/config", timeout=10).status_code == 401


def test_a_warehouse_is_a_prefix_and_its_tables_come_with_credentials(front: Callable[..., RestFront]) -> None:
    server = front(vended={"s3.access-key-id": "given"}, warehouses=["arn:a/b"])
    catalog = client(server.uri, warehouse="arn:a/b")
    made, loaded = catalog.create_table("shop.vended", ROWS.schema), catalog.load_table("shop.vended")
    assert {table.io.properties["s3.access-key-id"] for table in (made, loaded)} == {"given"}
    assert {line.delegation for line in server.lines} == {"vended-credentials"}
    assert (server.counts["POST tables"], server.counts["GET table"]) == (1, 1)
    for path in ("config?warehouse=other", "other/namespaces"):
        assert requests.get(f"{server.uri}/v1/{path}", timeout=10).status_code == 404


def test_trouble_comes_when_it_is_asked_for(front: Callable[..., RestFront]) -> None:
    server = front()
    table = client(server.uri).create_table("shop.troubled", ROWS.schema)
    server.answer(409)
    with pytest.raises(CommitFailedException):
        table.transaction().set_properties(at="409").commit_transaction()
    server.forward_and_answer(504)
    with pytest.raises(CommitStateUnknownException):
        table.transaction().set_properties(at="504").commit_transaction()
    assert table.refresh().properties["at"] == "504"
    server.lose_answer()
    with pytest.raises(requests.ConnectionError):
        table.transaction().set_properties(at="lost").commit_transaction()
    with server.refusing(), pytest.raises(requests.ConnectionError):
        table.refresh()
    server.delay(before=0.1, after=0.1, method="GET")
    assert table.refresh().properties["at"] == "lost"
    assert server.lines[-1].seconds > 0.2


def test_a_connection_is_kept(front: Callable[..., RestFront]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", front().port)
    for method, path in (("GET", "/v1/config"), ("HEAD", "/v1/namespaces/absent"), ("GET", "/v1/namespaces")):
        connection.request(method, path)
        kept, answer = connection.sock, connection.getresponse()
        assert (answer.status == 404) is (method == "HEAD")
        answer.read()
        assert connection.sock is kept is not None
    connection.close()
