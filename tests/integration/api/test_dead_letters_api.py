"""Dead-letter rows through the API."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from webapp.monitoring.models import DeadLetterRow
from webapp.replicators import services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selectors import summary


@pytest.fixture
def url(replicator: Replicator) -> str:
    return f"/api/v1/replicators/{replicator.pk}/"


@pytest.fixture
def rows(replicator: Replicator) -> list[DeadLetterRow]:
    found = ReplicatorTable.objects.filter(replicator=replicator, name="orders")
    found.update(state="streaming", load_complete=True, dead_letters=3)
    orders = found.get()
    return [
        DeadLetterRow.objects.create(
            replicator=replicator, table=orders, sequence=number, operation="INSERT", offset=f"bin.1:{number}",
            txn_id="0-1-7", code="value_does_not_fit", column="v", message="no text", remedy="mend it", data=b"\0\xff",
            size=70_000,
        )
        for number in (4, 5, 6)
    ]  # fmt: skip


def test_dead_letter_rows_are_listed_and_looked_at(client: APIClient, url: str, rows: list[DeadLetterRow]) -> None:
    found = client.get(f"{url}dead-letter-rows/").json()
    assert [row["sequence"] for row in found["results"]] == [6, 5, 4]
    one = client.get(f"{url}dead-letter-rows/{rows[0].pk}/").json()
    wanted = {"table": "shop.orders", "offset": "bin.1:4", "column": "v", "size": 70_000, "kept": 2, "resolution": "",
        "resolved_by": None, "keys": None}  # fmt: skip
    assert {name: one[name] for name in wanted} == wanted
    assert client.get(f"{url}dead-letter-rows/{rows[0].pk}/bytes/").content == b"\0\xff"
    assert client.get(f"{url}dead-letter-rows/", {"state": "over"}).json()["count"] == 0
    assert client.get(f"{url}dead-letter-rows/", {"table": rows[0].table_id, "state": "open"}).json()["count"] == 3
    assert client.get(f"{url}dead-letter-rows/99999999/").status_code == 404


def test_they_are_discarded_by_whom(client: APIClient, url: str, rows: list[DeadLetterRow]) -> None:
    assert client.post(f"{url}dead-letter-rows/{rows[0].pk}/discard/").json() == {"discarded": 1}
    one = client.get(f"{url}dead-letter-rows/{rows[0].pk}/").json()
    assert (one["resolution"], one["resolved_by"]) == ("discarded", "ada")
    assert client.post(f"{url}dead-letter-rows/{rows[1].pk}/discard/", {"all": True}, format="json").json() == {
        "discarded": 2
    }
    assert client.get(f"{url}dead-letter-rows/", {"state": "open"}).json()["count"] == 0


def test_a_replay_reads_the_table_anew(client: APIClient, url: str, rows: list[DeadLetterRow]) -> None:
    assert client.post(f"{url}dead-letter-rows/{rows[0].pk}/replay/").json()["resolution"] == ""
    table = client.get(f"{url}tables/{rows[0].table_id}/").json()
    assert (table["state"], table["dead_letters"]) == ("reloading", 3)
    assert table["snapshot"]["reason"].startswith("replay of its dead-letter rows, as a whole: ")


def test_the_option_and_the_count_are_told(
    client: APIClient, url: str, rows: list[DeadLetterRow], replicator: Replicator
) -> None:
    assert client.get(url).json()["options"]["on_decode_error"] == "stop"
    assert (
        client.patch(f"{url}options/", {"on_decode_error": "dead_letter"}, format="json").json()["on_decode_error"]
        == "dead_letter"
    )
    refused = client.patch(f"{url}options/", {"on_decode_error": "ignore"}, format="json")
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "on_decode_error must be one of stop, dead_letter, not 'ignore'.",
    )
    assert client.get(url).json()["dead_letters"] == 3
    assert [table["dead_letters"] for table in summary(replicator)["tables"] if table["table"] == "shop.orders"] == [3]


def test_a_changed_option_is_read_by_capture_at_once(replicator: Replicator) -> None:
    version = replicator.plan_version
    options = ReplicatorOptions.from_dict(replicator.parsed_options.to_dict() | {"on_decode_error": "dead_letter"})
    services.update_options(replicator=replicator, options=options)
    replicator.refresh_from_db()
    assert replicator.plan_version > version
