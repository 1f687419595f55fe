"""What users may do to replicators, their tables, and connections."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from replicator.engine.reporting import Level
from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.redaction import redacted
from tests.integration.control.conftest import ITEMS, ORDERS, SECRET, WORDS, Captured
from webapp.accounts import services as accounts
from webapp.connections import selectors as connection_selectors
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.console.fleet import fleet_rows
from webapp.monitoring.models import LogLine, Stage, TimelineEvent
from webapp.replicators import selectors, services
from webapp.replicators.models import Desired, Replicator, ReplicatorTable, Status
from webapp.replicators.options import DDL_PRESETS, ReplicatorOptions
from webapp.replicators.selection.assessment import assess
from webapp.replicators.selection.entries import SelectionEntry
from webapp.worker.failure.failures import retry_ahead, stage_failed
from webapp.worker.run import wiring

pytestmark = pytest.mark.django_db


# Connections and secrets (invariant 8)


def test_a_secret_is_encrypted_at_rest_and_in_no_text_of_the_connection(connection: Connection) -> None:
    row = Connection.objects.values().get()
    assert SECRET not in json.dumps(row, default=str)
    assert SECRET not in repr(connection) + str(connection) + str(connection.__dict__)
    assert SECRET not in json.dumps(connection_selectors.public_config(connection))
    assert connection_selectors.full_config(connection)["password"] == SECRET


def test_a_secret_in_what_a_source_says_reaches_neither_page_nor_table(connection: Connection) -> None:
    results = connections.test_connection(kind="memory", config={}, connection=connection)
    assert SECRET not in repr(results)
    connection.refresh_from_db()
    assert SECRET not in json.dumps(connection.last_check)
    assert connection.check_status == "failed"


@pytest.mark.parametrize("password", ["tidemark", "x", "e", "row"])
def test_a_secret_that_is_a_word_tears_no_holes_into_texts_and_is_not_told_by_them(
    make: Any, connection: Connection, password: str
) -> None:
    connections.update_connection(connection=connection, config={**connection.config, "password": password})
    line = connections.test_connection(kind="memory", config={}, connection=connection)[0]
    assert (line.detail, line.remedy) == (f"{WORDS} (tried memory://me:•••@db.example/)", "IDENTIFIED BY •••")
    wiring.reporter(make(), Stage.CAPTURE).log(Level.ERROR, WORDS, table=ORDERS, stack=f"{WORDS} password={password}")
    stored = LogLine.objects.get()
    assert (stored.message, stored.detail) == (WORDS, {"stack": f"{WORDS} password=•••"})


def test_a_secret_in_a_log_line_is_scrubbed(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    replicator = make()
    report = wiring.reporter(replicator, Stage.CAPTURE)
    logging.getLogger("tidemark").propagate = True
    with caplog.at_level(logging.INFO, logger="tidemark.engine"):
        report.log(
            Level.ERROR,
            f"login with password={SECRET} failed",
            table=ORDERS,
            statement=f"IDENTIFIED BY '{SECRET}\0'",
            password=SECRET,
        )
    line = LogLine.objects.get()
    assert SECRET not in line.message + json.dumps(line.detail) + caplog.text
    assert line.table == "shop.orders"


@pytest.mark.parametrize(
    "text",
    ["mysql://root:hunter2@db/shop", "password=hunter2", "IDENTIFIED BY 'hunter2'", 'token: "hunter2"'],
)
def test_what_looks_like_a_secret_is_scrubbed(text: str) -> None:
    assert "hunter2" not in redacted(text)


def test_an_empty_secret_keeps_the_stored_one(connection: Connection) -> None:
    connections.update_connection(connection=connection, config={**connection.config, "password": ""})
    assert connection_selectors.full_config(connection)["password"] == SECRET


def test_a_secret_under_another_key_is_said_to_be_lost(connection: Connection, settings: Any, tmp_path: Path) -> None:
    settings.SECRET_KEY, settings.TIDEMARK_HOME = "another", tmp_path
    with pytest.raises(ConfigurationError, match="TIDEMARK_SECRET_KEY"):
        connection_selectors.full_config(connection)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"password": ""}, "Password is missing"),
        ({"password": "x", "port": "abc"}, "Port"),
        ({"pasword": "x"}, "pasword"),
    ],
)
def test_a_wrong_connection_is_refused_by_name_of_the_field(db: None, config: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        connections.create_connection(name="x", kind="memory", config=config)


def test_a_connection_in_use_cannot_be_deleted(make: Any, connection: Connection) -> None:
    make()
    with pytest.raises(ConfigurationError, match="used by shop"):
        connections.delete_connection(connection=connection)


# Accounts


def test_a_one_time_login_works_once(user: User) -> None:
    token = accounts.create_one_time_login(user=user)
    assert accounts.use_one_time_login(token=token) == user
    assert accounts.use_one_time_login(token=token) is None


def test_a_one_time_login_ends_by_time(user: User) -> None:
    assert accounts.use_one_time_login(token=accounts.create_one_time_login(user=user, minutes=-1)) is None


def test_a_token_is_known_by_its_digest_only(user: User) -> None:
    plain = accounts.create_token(user=user, name="ci")
    token = accounts.token_for(plain=plain)
    assert token is not None
    assert token.user == user
    token = user.api_tokens.get()
    assert plain not in json.dumps({k: str(v) for k, v in token.__dict__.items()})
    accounts.revoke_token(token=token)
    assert accounts.token_for(plain=plain) is None


# Replicators


def test_desired_state_follows_the_user_and_is_told(make: Any, user: User) -> None:
    replicator = make()
    assert (replicator.desired, replicator.status) == (Desired.RUNNING, Status.STARTING)
    version = replicator.plan_version
    services.pause_replicator(replicator=replicator, user=user)
    assert (replicator.desired, replicator.status) == (Desired.PAUSED, Status.STOPPING)
    assert replicator.plan_version > version
    services.resume_replicator(replicator=replicator, user=user)
    services.stop_replicator(replicator=replicator, user=user)
    kinds = list(TimelineEvent.objects.order_by("id").values_list("kind", flat=True))
    assert kinds == ["created", "started", "paused", "resumed", "stopped"]
    assert TimelineEvent.objects.last().user is None
    assert TimelineEvent.objects.filter(user=user).count() == 3


def test_a_replicator_that_is_being_deleted_cannot_be_started(make: Any) -> None:
    replicator = make()
    services.delete_replicator(replicator=replicator, drop_target=True)
    assert (replicator.status, replicator.drop_target_on_delete) == (Status.DELETING, True)
    with pytest.raises(ConfigurationError, match="being deleted"):
        services.start_replicator(replicator=replicator)


def test_starting_after_a_failure_counts_anew(make: Any) -> None:
    replicator = make()
    Replicator.objects.update(status=Status.FAILED, error_code="x", error_message="why", attempt=9)
    replicator.refresh_from_db()
    assert selectors.allowed_actions(replicator) == {"start", "stop", "delete"}
    services.start_replicator(replicator=replicator)
    assert (replicator.status, replicator.error_message, replicator.attempt) == (Status.STARTING, "", 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"slo_percent": 101}, "slo_percent"),
        ({"zero_dates": "maybe"}, "zero_dates"),
        ({"ddl_policy": {"rename_column": "ignore"}}, "ddl_policy.rename_column"),
        ({"ddl_policy": "unknown"}, "preset"),
        ({"retries": 3}, "retries"),
        ({"initial_snapshot": "yes"}, "initial_snapshot"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ReplicatorOptions.from_dict(options)


def test_options_survive_their_json_form() -> None:
    options = ReplicatorOptions.from_dict({"ddl_policy": "keep", "slo_minutes": 1})
    assert ReplicatorOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options
    assert options.ddl_preset == "keep"
    assert options.ddl_policy == DDL_PRESETS["keep"]


def test_two_replicators_never_write_one_target_table(make: Any) -> None:
    make()
    with pytest.raises(ConfigurationError, match="shop writes"):
        make(name="second")
    assert not Replicator.objects.filter(name="second").exists()


def test_a_selection_of_nothing_is_refused(connection: Connection) -> None:
    with pytest.raises(ConfigurationError, match="No table"):
        services.create_replicator(name="x", connection=connection, selection=[])


def test_tables_come_and_go_while_the_replicator_runs(captured: Captured) -> None:
    replicator = captured.replicator
    services.add_tables(replicator=replicator, selection=[SelectionEntry("shop", "items", excluded_columns=("name",))])
    plan = captured.journal.plan()
    assert ITEMS in plan.tables
    assert plan.tables.columns_left_out(ITEMS) == {"name"}
    services.remove_table(replicator=replicator, table=ORDERS)
    plan = captured.journal.plan()
    assert ORDERS not in plan.tables
    assert [tracked.table for tracked in plan.tracked] == [ITEMS]
    with pytest.raises(ConfigurationError, match="last table"):
        services.remove_table(replicator=replicator, table=ITEMS)


def test_a_table_removed_from_a_whole_database_stays_out(make: Any) -> None:
    capture = Captured(make(tables=(TableId("shop", ""),)))
    capture.begin()
    services.remove_table(replicator=capture.replicator, table=ORDERS)
    plan = capture.journal.plan()
    assert ORDERS not in plan.tables
    assert ITEMS in plan.tables
    assert not ReplicatorTable.objects.filter(name="orders").exists()


def test_a_failed_table_comes_back_by_a_new_load_that_waits_for_capture(captured: Captured) -> None:
    from replicator.errors import UnsupportedDdl

    captured.commit(next_sequence=5, failures=((ORDERS, UnsupportedDdl("what?", table=str(ORDERS))),))
    services.retry_table(table=captured.row(ORDERS))
    row = captured.row(ORDERS)
    assert (row.state, row.tracked, row.error_message) == ("loading", False, "")
    captured.commit(next_sequence=8, tracking=frozenset({ORDERS}))
    row = captured.row(ORDERS)
    assert (row.tracked, row.live_from) == (True, 7)
    assert selectors.open_run(row).start_sequence == 8


def test_retry_tries_the_replicator_and_its_failed_tables_at_once_with_one_note(captured: Captured) -> None:
    from replicator.errors import SourceUnreachable, UnsupportedDdl

    captured.commit(next_sequence=5, failures=((ORDERS, UnsupportedDdl("what?", table=str(ORDERS))),))
    pk = captured.replicator.pk
    stage_failed(pk, Stage.CAPTURE, SourceUnreachable("no route"))
    TimelineEvent.objects.all().delete()
    replicator = services.retry_replicator(replicator=Replicator.objects.get())
    assert (replicator.status, replicator.desired) == (Status.STARTING, Desired.RUNNING)
    assert (replicator.attempt, replicator.next_retry_at, replicator.error_message) == (0, None, "")
    assert not retry_ahead(pk, Stage.CAPTURE, timezone.now())
    assert (captured.row(ORDERS).state, captured.row(ORDERS).error_message) == ("loading", "")
    note = TimelineEvent.objects.get()
    assert (note.kind, note.detail) == ("retried", {"tables": ["shop.orders"]})
    services.retry_replicator(replicator=replicator)  # nothing is left to try again
    assert TimelineEvent.objects.count() == 1


def test_retry_keeps_what_the_user_wants(make: Any) -> None:
    replicator = make()
    for desired, status in ((Desired.DELETED, Status.DELETING), (Desired.PAUSED, Status.FAILED)):
        Replicator.objects.update(desired=desired, status=Status.FAILED, error_message="why")
        services.retry_replicator(replicator=replicator)
        assert (replicator.desired, replicator.status, replicator.error_message) == (desired, status, "")


def test_a_streaming_table_is_read_anew_without_a_gap_for_readers(make: Any) -> None:
    capture = Captured(make(initial_snapshot=False))
    capture.begin()
    capture.commit(next_sequence=7)
    before = capture.row(ORDERS)
    services.resnapshot_table(table=before)
    row = capture.row(ORDERS)
    assert (row.state, row.load, row.tracked) == ("reloading", before.load, True)
    assert selectors.open_run(row).start_sequence == 7
    services.cancel_snapshot(table=row)
    assert capture.row(ORDERS).state == "streaming"


def test_a_draft_is_the_users_own(user: User) -> None:
    draft = services.save_draft(user=user, step="tables", data={"tables": ["shop.orders"]})
    services.save_draft(user=user, step="target", data={"x": 1}, draft=draft)
    loaded = services.load_draft(user=user)
    assert loaded is not None
    assert (loaded.step, loaded.data) == ("target", {"x": 1})
    other = User.objects.create_superuser("bob")
    assert services.load_draft(user=other, draft_id=draft.pk) is None
    services.discard_draft(user=user, draft_id=draft.pk)
    assert services.load_draft(user=user) is None


def test_the_assessment_names_what_is_not_there(connection: Connection) -> None:
    found = assess(
        connection=connection,
        selection=[
            SelectionEntry("shop"),
            SelectionEntry("shop", "gone"),
            SelectionEntry("shop", "items", excluded=True),
        ],
        options=ReplicatorOptions(),
    )
    assert [(str(one.table), one.support) for one in found] == [("shop.gone", "none"), ("shop.orders", "full")]
    assert found[1].columns[0].target_type == "long"


def test_the_fleet_costs_the_same_for_many_replicators(make: Any, django_assert_max_num_queries: Any) -> None:
    for number in range(4):
        make(name=f"r{number}", tables=(TableId("shop", f"t{number}"),))
    with django_assert_max_num_queries(4):
        rows = fleet_rows()
    assert [row.tables for row in rows] == [1, 1, 1, 1]


def test_a_summary_is_json(captured: Captured) -> None:
    found = json.loads(json.dumps(selectors.summary(captured.replicator), default=str))
    assert found["tables"][0]["state"] == "loading"
    assert found["tables"][0]["snapshot"]["rows_estimate"] == 10
    assert not found["current"]
