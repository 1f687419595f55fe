"""Pages without a browser: who may see them, what they cost, what they do."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from replicator.sources.registry import KINDS
from tests.browser.factories import Installation, make_replicator, make_table, make_user
from tests.browser.fake_source import FakeSource
from tests.pages import page_text
from webapp.accounts import services as accounts
from webapp.connections.models import Connection
from webapp.monitoring.models import LogLine
from webapp.replicators.models import Draft, Replicator

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
HTMX = {"HTTP_HX_REQUEST": "true"}
TABS = ("overview", "tables", "activity", "schema", "lineage", "settings")


def busy(made: Installation) -> Replicator:
    return made.replicators["shop to lakehouse"]


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def test_without_signing_in_every_page_leads_to_the_sign_in(made: Installation) -> None:
    pk, draft = busy(made).pk, made.draft.pk
    pages = [reverse(f"replicators:{tab}", args=[pk]) for tab in (*TABS, "head")]
    pages += [reverse("replicators:fleet"), reverse("replicators:fleet_rows"), reverse("replicators:new")]
    pages += [reverse("replicators:step", args=[draft, "tables"]), reverse("replicators:listing", args=[draft])]
    pages += [reverse("connections:list"), reverse("connections:edit", args=[made.connection.pk])]
    pages += [
        reverse("accounts:tokens"),
        reverse("monitoring:logs", args=[pk]),
        reverse("monitoring:charts", args=[pk]),
        reverse("monitoring:download", args=[pk]),
        reverse("monitoring:failures", args=[pk]),
        reverse("monitoring:all_failures"),
        reverse("alerts:index"),
    ]
    for page in pages:
        response = Client().get(page)
        assert (response.status_code, response["Location"].split("?")[0]) == (302, "/login/"), page
    for page in (
        reverse("replicators:act", args=[pk, "pause"]),
        reverse("connections:test", args=[made.connection.pk]),
    ):
        assert Client().post(page).status_code == 302


@pytest.mark.parametrize("name", TABS)
def test_unknown_replicators_are_not_found(browser: Client, name: str) -> None:
    assert browser.get(reverse(f"replicators:{name}", args=[0])).status_code == 404


@pytest.mark.parametrize("tables", [3, 120])
def test_live_fragments_cost_the_same_whatever_the_number_of_tables(
    browser: Client, made: Installation, django_assert_max_num_queries: Any, tables: int
) -> None:
    one = make_replicator(made.connection, f"with {tables} tables")
    for number in range(tables):
        make_table(one, f"t{number:03}")
    bounds = {"replicators:fleet_rows": (9, []), "replicators:head": (12, [one.pk])}
    bounds |= {"replicators:overview": (11, [one.pk]), "replicators:tables": (11, [one.pk])}
    bounds |= {"replicators:activity": (6, [one.pk]), "monitoring:logs": (6, [one.pk])}
    bounds |= {"monitoring:charts": (9, [one.pk])}
    for name, (bound, arguments) in bounds.items():
        with django_assert_max_num_queries(bound):
            assert browser.get(reverse(name, args=arguments), **HTMX).status_code == 200


def test_charts_fill_only_the_tables_that_are_open_and_say_what_cannot_be_shown(
    browser: Client, made: Installation
) -> None:
    address = reverse("monitoring:charts", args=[busy(made).pk])
    table = busy(made).tables.get(name="orders")

    def shown(query: dict[str, Any]) -> str:
        response = browser.get(address, query)
        assert response.status_code == 200
        return page_text(response)

    assert "<tr> <td>" not in shown({"range": "6h"})
    opened = shown({"range": "6h", "open": ["lag", "throughput"], "table": table.pk})
    assert opened.count("</details>") > opened.count("<tbody> <tr> <td>") == 2
    assert "Source log retained" not in opened  # the figure of a replicator, not of a table
    assert "Unknown range 2h. Choose one of 1h, 6h, 24h, 7d, 30d" in shown({"range": "2h"})
    for strange in ({"table": "9" * 30}, {"table": "x"}, {"from": "2026-01-01T00:00", "to": "?"}, {"at": "x"}):
        shown(strange)


def test_an_action_by_htmx_answers_with_a_message_and_by_form_goes_back(browser: Client, made: Installation) -> None:
    act = reverse("replicators:act", args=[busy(made).pk, "pause"])
    response = browser.post(act, **HTMX)
    assert response.status_code == 204
    assert "is pausing" in json.loads(response["HX-Trigger"])["tidemark:message"]["text"]
    assert browser.get(act).status_code == 405
    resume = reverse("replicators:act", args=[busy(made).pk, "resume"])
    assert browser.post(resume, {"next": "/"})["Location"] == "/"
    assert browser.post(resume, {"next": "https://elsewhere.example/"})["Location"].startswith("/replicators/")
    assert browser.post(reverse("replicators:act", args=[busy(made).pk, "explode"])).status_code == 404


def test_retry_clears_the_waiting_time(browser: Client, made: Installation) -> None:
    one = made.replicators["erp"]
    browser.post(reverse("replicators:act", args=[one.pk, "retry"]), **HTMX)
    one.refresh_from_db()
    assert (one.desired, one.next_retry_at, one.error_message) == ("running", None, "")


def test_deletion_without_the_name_does_nothing(browser: Client, made: Installation) -> None:
    act = reverse("replicators:act", args=[busy(made).pk, "delete"])
    assert "Nothing was deleted" in said(browser.post(act, {"confirm": "shop"}))
    assert busy(made).desired == Replicator.objects.get(pk=busy(made).pk).desired


def test_a_table_of_another_replicator_is_not_reached(browser: Client, made: Installation) -> None:
    table = busy(made).tables.first()
    other = made.replicators["erp"]
    assert browser.post(reverse("replicators:act_on_table", args=[other.pk, table.pk, "remove"])).status_code == 404


def test_what_failed_comes_first_and_what_mends_it_is_one_script(browser: Client, made: Installation) -> None:
    one = made.connection
    one.last_check = [
        {"name": name, "title": name, "status": status, "detail": "", "remedy": remedy}
        for name, status, remedy in (
            ("fine", "ok", ""), ("never", "skipped", ""), ("ever", "skipped", ""),
            ("log", "failed", "SET GLOBAL binlog_format = 'ROW';"),
            ("kept", "warning", "SET GLOBAL expire = 7;"),
        )
    ]  # fmt: skip
    one.save()
    page = browser.get(reverse("connections:edit", args=[one.pk])).content.decode()
    places = [page.index(f">{name}</span>") for name in ("log", "kept", "fine")]
    assert places == sorted(places)
    assert ">never</span>" not in page
    assert "2 more checks could not be run." in page
    assert "-- log\nSET GLOBAL binlog_format = &#x27;ROW&#x27;;\n-- kept\nSET GLOBAL expire = 7;" in page


def test_who_mends_a_connection_from_a_draft_goes_back_to_it(browser: Client, made: Installation) -> None:
    draft = reverse("replicators:step", args=[made.draft.pk, "test"])
    assert f"?next={draft}" in browser.get(draft).content.decode()
    page = reverse("connections:edit", args=[made.connection.pk])
    assert f'href="{draft}"' in browser.get(page, {"next": draft}).content.decode()
    values = {"host": "db.internal", "port": 3306, "user": "tidemark", "password": "p", "tls": "preferred"}
    given = {"name": made.connection.name, **{f"setting-{name}": value for name, value in values.items()}}
    saved = browser.post(f"{page}?next={draft}", given)
    assert (saved.status_code, saved["Location"]) == (302, draft)
    assert "https://evil" not in browser.get(page, {"next": "https://evil.example/"}).content.decode()


def test_a_connection_in_use_is_not_deleted(browser: Client, made: Installation) -> None:
    response = browser.post(reverse("connections:delete", args=[made.connection.pk]))
    assert "is used by" in said(response)
    assert Connection.objects.filter(pk=made.connection.pk).exists()


def test_secrets_never_come_back(browser: Client, made: Installation) -> None:
    new = {"name": "n", "setting-host": "h", "setting-port": 1, "setting-user": "u", "setting-tls": "disabled"}
    new["setting-password"] = "s3cret!"
    assert browser.post(reverse("connections:new"), new).status_code == 302
    one = Connection.objects.get(name="n")
    page = reverse("connections:edit", args=[one.pk])
    assert "s3cret!" not in browser.get(page).content.decode()
    invalid = browser.post(page, new | {"name": ""})
    assert "Enter a name for the connection." in invalid.content.decode()
    assert "s3cret!" not in invalid.content.decode()


def test_a_wrong_field_is_said_at_the_field(browser: Client, made: Installation) -> None:
    page = browser.post(
        reverse("connections:new"), {"name": "shop production", "setting-port": "many"}
    ).content.decode()
    for sentence in ("There is already a connection named", "Host is missing.", "Port must be a whole number."):
        assert sentence in page


def test_the_test_of_a_connection_names_checks_with_their_remedies(browser: Client, made: Installation) -> None:
    page = browser.post(reverse("connections:test", args=[made.connection.pk]), **HTMX).content.decode()
    assert "Log retention" in page
    assert "SET GLOBAL binlog_expire_logs_seconds = 604800;" in page


def test_an_operator_tests_a_connection_from_the_list(client: Client, made: Installation) -> None:
    client.force_login(User.objects.create_user("op", is_staff=True))
    place = reverse("connections:test", args=[made.connection.pk])
    listed = client.get(reverse("connections:list")).content.decode()
    assert (place in listed, "Edit" in listed) == (True, False)
    shown = client.post(place, {"listed": "1"}, **HTMX).content.decode()
    assert f"Test of {made.connection.name}" in shown


def test_drafts_belong_to_their_user(browser: Client, made: Installation) -> None:
    stranger = Client()
    stranger.force_login(make_user("eve"))
    step = reverse("replicators:step", args=[made.draft.pk, "tables"])
    assert browser.get(step).status_code == 200
    assert stranger.get(step).status_code == 404
    stranger.post(reverse("replicators:discard", args=[made.draft.pk]))
    assert Draft.objects.filter(pk=made.draft.pk).exists()


def test_what_is_typed_is_kept_right_or_wrong(browser: Client, made: Installation) -> None:
    draft = made.draft.pk
    browser.post(reverse("replicators:step", args=[draft, "target"]), {"namespace_prefix": "x_"})
    browser.post(reverse("replicators:keep", args=[draft, "options"]), {"name": "crm two", "slo_minutes": "nine"})
    page = browser.get(reverse("replicators:step", args=[draft, "options"])).content.decode()
    assert 'value="crm two"' in page
    assert 'value="nine"' in page
    refused = browser.post(
        reverse("replicators:step", args=[draft, "options"]), {"name": "crm two", "slo_minutes": "nine"}
    )
    assert "Enter a number." in refused.content.decode()


def test_a_step_too_far_leads_to_the_first_incomplete_one(browser: Client, made: Installation) -> None:
    response = browser.get(reverse("replicators:step", args=[made.draft.pk, "review"]))
    assert response["Location"] == reverse("replicators:step", args=[made.draft.pk, "target"])


def test_an_unreachable_source_is_said_in_the_picker(browser: Client, made: Installation) -> None:
    from webapp.connections.services import update_connection

    config = made.connection.config | {"password": "wrong"}
    update_connection(connection=made.connection, config=config)
    page = browser.get(reverse("replicators:listing", args=[made.draft.pk]), **HTMX).content.decode()
    assert "Access denied for user tidemark." in page
    assert "Correct the user and password of the connection." in page


def test_logs_are_downloaded_whole_and_filtered(browser: Client, made: Installation) -> None:
    address = reverse("monitoring:download", args=[busy(made).pk])
    everything = b"".join(browser.get(address, {"format": "jsonl"}).streaming_content).decode().splitlines()
    assert len(everything) == 320
    assert json.loads(everything[0])["level"] == "info"
    errors = b"".join(browser.get(address, {"level": "error"}).streaming_content).decode().splitlines()
    assert errors
    assert all(" ERROR " in line for line in errors if not line.startswith("    | "))
    assert len([line for line in errors if " ERROR " in line]) == busy(made).log_lines.filter(level="error").count()


def test_settings_are_saved_or_refused_at_the_field(browser: Client, made: Installation) -> None:
    page = reverse("replicators:settings", args=[busy(made).pk])
    good = {"slo_percent": "95", "slo_minutes": "2", "retry_minutes": "10", "on_table_failure": "stop"}
    good |= {
        "on_log_lost": "start_anew",
        "on_decode_error": "dead_letter",
        "retention_warn_percent": "60",
        "zero_dates": "text",
        "snapshot_parallel": "4",
        "snapshot_chunk_seconds": "0.5",
        "snapshot_chunk_rows": "5000",
        "snapshot_delay_seconds": "1",
        "snapshot_most_running": "40",
        "snapshot_most_lag_seconds": "2.5",
        "signal_table": "shop.signals",
        "mode": "mirror",
        "merge_parallel": "2",
        "ddl_preset": "strict",
    }
    refused = browser.post(page, good | {"slo_percent": "101"})
    assert "less than or equal to 100" in refused.content.decode()
    assert browser.post(page, good).status_code == 302
    options = Replicator.objects.get(pk=busy(made).pk).parsed_options
    assert (options.slo_percent, options.initial_snapshot, options.ddl_preset) == (95, False, "strict")
    assert (options.on_log_lost, options.retention_warn_percent) == ("start_anew", 60)
    assert options.on_decode_error == "dead_letter"


def test_a_log_that_fills_the_source_is_shown_with_what_to_do(browser: Client, made: Installation) -> None:
    row = Replicator.objects.filter(pk=busy(made).pk)
    page, api = (
        reverse("replicators:overview", args=[busy(made).pk]),
        reverse("api-replicator-detail", args=[busy(made).pk]),
    )
    assert "log-kept" not in browser.get(page).content.decode()
    assert browser.get(api).json()["log_kept"] is None
    row.update(
        log_held_bytes=9 * 2**30, log_held_most=10 * 2**30, log_held_status="reserved", log_held_at=timezone.now()
    )
    calm = page_text(browser.get(page))
    assert "9.0 GiB of at most 10.0 GiB · reserved" in calm
    assert "log-kept-warning" not in calm
    row.update(log_concern="large")
    assert "above 10.0 GiB it is lost." in browser.get(page).content.decode()
    row.update(log_concern="lost", log_held_status="lost", log_held_bytes=None)
    assert "start-anew" in browser.get(page).content.decode()
    assert browser.get(api).json()["log_kept"]["concern"] == "lost"
    row.update(options=row.get().options | {"on_log_lost": "start_anew"})
    alone = browser.get(page).content.decode()
    assert "it restarts from scratch automatically" in alone
    assert "start-anew" not in alone


def test_a_one_time_link_signs_in_once(made: Installation) -> None:
    link = reverse("accounts:sign_in_once", args=[accounts.create_one_time_login(user=made.user)])
    assert Client().get(link)["Location"] == "/"
    again = Client().get(link)
    assert again["Location"] == "/login/"
    assert "was already used" in said(again)


def test_a_new_token_is_shown_once(browser: Client, made: Installation) -> None:
    page = browser.post(reverse("accounts:tokens"), {"name": "ci", "role": "admin"}).content.decode()
    plain = page.split('aria-label="New API token">')[1].split("<")[0]
    token = accounts.token_for(plain=plain)
    assert token is not None
    assert token.user == made.user
    assert plain not in browser.get(reverse("accounts:tokens")).content.decode()


def test_times_are_in_the_browsers_zone_and_in_utc_under_the_pointer(browser: Client, made: Installation) -> None:
    one = busy(made)
    line = LogLine.objects.create(replicator=one, level="info", stage="capture", message="at noon")
    LogLine.objects.filter(pk=line.pk).update(at=datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC))
    page = reverse("monitoring:logs", args=[one.pk])

    def shown(zone: str) -> str:
        browser.cookies["zone"] = zone
        return page_text(browser.get(page, {"text": "at noon"}))

    assert "07-01 12:00:00.000" in shown("")
    berlin = shown("Europe%2FBerlin")
    assert "07-01 14:00:00.000" in berlin
    assert 'title="2026-07-01 12:00:00 UTC"' in berlin
    assert "Times are in Europe/Berlin" in berlin
    for nonsense in ("Mars%2FOlympus", "..%2F..%2Fetc%2Fpasswd", "%00", "x" * 500, "Europe"):
        assert "07-01 12:00:00.000" in shown(nonsense), nonsense


def test_names_from_the_source_are_escaped(browser: Client, made: Installation) -> None:
    make_table(busy(made), "<script>alert('x')</script>")
    page = browser.get(reverse("replicators:tables", args=[busy(made).pk])).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_tables_are_added_to_a_running_replicator_or_refused(browser: Client, made: Installation) -> None:
    add = reverse("replicators:add_tables", args=[busy(made).pk])
    assert "2 tables of crm will be copied" in said(
        browser.post(add, {"database": "crm", "tables": "lead_1\nnote_2\n"})
    )
    assert busy(made).selection.filter(database="crm").count() == 2
    masks = {"name": {"kind": "null"}}
    busy(made).selection.filter(table="lead_1").update(masks=masks, excluded_columns=["id"], row_filter="n > 1")
    browser.post(add, {"database": "crm", "tables": "lead_1"})
    browser.post(add, {"database": "crm"})
    kept = busy(made).selection.get(table="lead_1")
    assert (kept.masks, kept.excluded_columns, kept.row_filter) == (masks, ["id"], "n > 1")
    assert "Not found in the source: crm.nothing" in said(browser.post(add, {"database": "crm", "tables": "nothing"}))
    assert "has no database void" in said(browser.post(add, {"database": "void"}))


def test_a_first_visit_offers_every_guide_and_every_kind_of_source(browser: Client, made: Installation) -> None:
    Replicator.objects.all().delete()
    Draft.objects.all().delete()
    Connection.objects.all().delete()
    fleet = browser.get(reverse("replicators:fleet")).content.decode()
    wizard = browser.get(reverse("replicators:new"), {"kind": "postgres"}).content.decode()
    for kind in ("mysql", "postgres"):
        assert reverse("connections:guide", args=[kind]) in fleet
        assert f'href="?kind={kind}&amp;connection=new"' in wizard
        assert browser.get(reverse("connections:guide", args=[kind])).status_code == 200
    assert 'name="setting-publication"' in wizard
    assert 'name="setting-server_id"' not in wizard


def test_a_source_is_spoken_of_in_its_own_words(browser: Client, made: Installation, monkeypatch: Any) -> None:
    monkeypatch.setitem(KINDS, "postgres", replace(KINDS["postgres"], open=FakeSource))
    address = {"setting-host": "pg", "setting-port": 5432, "setting-database": "shop", "setting-user": "u"}
    more = {"setting-tls": "prefer", "setting-event_trigger": "no", "setting-connect_timeout": 10}
    new = reverse("replicators:new")
    said_back = browser.post(
        f"{new}?kind=postgres&connection=new", {"connection": "new", "name": "pg", **address, **more}
    )
    assert said_back.status_code == 302, said_back.content.decode()
    connection = Connection.objects.get(name="pg")
    assert (connection.kind, connection.kind_title) == ("postgres", "PostgreSQL")
    draft = Draft.objects.filter(data__connection=connection.pk).get()
    picker = browser.get(reverse("replicators:listing", args=[draft.pk]), **HTMX).content.decode()
    assert "All schemas" in picker
    assert "atabases" not in picker
    assert "PostgreSQL" in browser.get(reverse("connections:list")).content.decode()


def test_deletion_can_leave_the_source_as_it_is(browser: Client, made: Installation) -> None:
    replicator = busy(made)
    form = {"confirm": replicator.name, "leave_source": "yes"}
    browser.post(reverse("replicators:act", args=[replicator.pk, "delete"]), form)
    replicator.refresh_from_db()
    assert (replicator.leave_source_on_delete, replicator.drop_target_on_delete) == (True, False)
