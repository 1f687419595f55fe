"""Definitions as code through the API: the same file as the commands', without the server's environment."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.monitoring.models import TimelineEvent
from webapp.replicators.models import Replicator

URL = "/api/v1/definitions/"
FILE = """
connections: [{name: crm, kind: fake, config: {host: h, user: u, password: "${CRM_PASSWORD}"}}]
replicators: [{name: crm, connection: crm, tables: ["crm.*"], options: {slo_minutes: 2}}]
"""
MADE = ["connection crm: created", "replicator crm: created"]


def test_a_file_is_tried_applied_and_written_again(client: APIClient) -> None:
    body = {"file": FILE, "variables": {"CRM_PASSWORD": "s3cret-word"}}
    tried = client.post(URL, body | {"dry_run": True}, format="json")
    assert (tried.status_code, tried.json()) == (200, {"changes": MADE}), tried.content
    assert not Connection.objects.filter(name="crm").exists()
    assert client.post(URL, body, format="json").json() == {"changes": MADE}
    assert full_config(Connection.objects.get(name="crm"))["password"] == "s3cret-word"
    created = TimelineEvent.objects.get(replicator=Replicator.objects.get(name="crm"), kind="created")
    assert created.user is not None  # who is signed in
    assert client.post(URL, body, format="json").json() == {"changes": []}
    written = client.get(URL, {"name": "crm"}).json()["file"]
    assert "s3cret-word" not in written
    assert client.post(URL, body | {"file": written}, format="json").json() == {"changes": []}


def test_the_servers_own_environment_is_not_read(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_PASSWORD", "the server's")
    answer = client.post(URL, {"file": FILE}, format="json")
    assert (answer.status_code, answer.json()["message"]) == (400, "The environment variable CRM_PASSWORD is not set.")
    assert not Connection.objects.filter(name="crm").exists()


@pytest.mark.parametrize(
    ("file", "said"), [("a: [", "The file is not YAML"), ("tables: []", "unknown key 'tables'"), ("- 1", "mapping")]
)
def test_a_wrong_file_answers_with_a_sentence(client: APIClient, file: str, said: str) -> None:
    answer = client.post(URL, {"file": file}, format="json")
    assert answer.status_code == 400
    assert said in answer.json()["message"]
    assert client.get(URL, {"name": "nobody"}).status_code == 400
