"""What `manage.py export` writes, `manage.py apply` reads: nothing changes where it was written, and elsewhere the same
comes of it.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.alerts import services as alerts
from webapp.alerts.models import Channel, Rule
from webapp.connections.models import Connection
from webapp.connections.secrets import unseal
from webapp.connections.selectors import full_config
from webapp.console.definitions.apply import apply
from webapp.console.definitions.document import literal, parsed
from webapp.console.definitions.export import export
from webapp.monitoring.models import TableObjective
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import ensure_table

pytestmark = pytest.mark.django_db
URL, KEY = "https://hooks.example.com/T0-s3cret-path", "signing-k3y"
FILE = """
connections:
  - name: shop
    kind: memory
    config: {host: "${SHOP_HOST:-localhost}", password: "${SHOP_PASSWORD}"}
channels:
  - {name: mail, kind: email, recipients: [ada@example.com, bob@example.com]}
  - {name: on call, kind: webhook, url: "${ON_CALL_URL}", key: "${ON_CALL_KEY}"}
replicators:
  - name: copy
    connection: shop
    tables: ["shop.*", {table: crm.notes, exclude_columns: [body], slo: {percent: 99.9, minutes: 0.5}}]
    exclude: ["shop.audit"]
    target: {namespace_prefix: "lake_"}
    options: {slo_minutes: 1, ddl_policy: keep}
    alerts: {lag: {minutes: 3.5, channels: [mail, on call]}, slo_burn: {enabled: false}}
    state: paused
"""
ENVIRON = {"SHOP_PASSWORD": "pw", "ON_CALL_URL": URL, "ON_CALL_KEY": KEY}


def facts() -> dict[str, Any]:
    """All that a file can say, as the database has it."""
    return {
        "connections": {one.name: (one.kind, full_config(one)) for one in Connection.objects.all()},
        "channels": {one.name: (one.kind, one.config, unseal(one.secrets)) for one in Channel.objects.all()},
        "replicators": {
            one.name: (one.connection.name, one.target, one.options, one.desired) for one in Replicator.objects.all()
        },
        "lines": {
            (str(s), s.excluded, tuple(s.excluded_columns))
            for one in Replicator.objects.all()
            for s in one.selection.all()
        },
        "objectives": set(TableObjective.objects.values_list("table__database", "table__name", "percent", "seconds")),
        "rules": {
            (str(rule.replicator), rule.kind): (rule.enabled, rule.params, sorted(map(str, rule.channels.all())))
            for rule in Rule.objects.all()
        },
    }


def forget() -> None:
    for model in (Replicator, Connection, Channel):
        model.objects.all().delete()


def test_channels_and_rules_are_made_as_the_file_says_and_a_second_time_nothing() -> None:
    assert apply(FILE, ENVIRON) == [
        "connection shop: created",
        "channel mail: created",
        "channel on call: created",
        "replicator copy: created",
        "replicator copy: SLO of crm.notes",
        "replicator copy: alert rule lag",
        "replicator copy: alert rule slo_burn",
        "replicator copy: paused",
    ]
    assert apply(FILE, ENVIRON) == []
    lag, burn = Rule.objects.get(kind="lag"), Rule.objects.get(kind="slo_burn")
    assert (lag.params, sorted(map(str, lag.channels.all()))) == (
        {"minutes": 3.5, "hold_minutes": 2},
        ["mail", "on call"],
    )
    assert (lag.enabled, burn.enabled) == (True, False)
    assert unseal(Channel.objects.get(name="on call").secrets) == {"url": URL, "key": KEY}


def test_what_a_rule_or_channel_does_not_name_stays() -> None:
    apply(FILE, ENVIRON)
    less = FILE.replace("minutes: 3.5, channels: [mail, on call]", "hold_minutes: 9").replace(
        ', key: "${ON_CALL_KEY}"', ""
    )
    assert apply(less, ENVIRON) == ["replicator copy: alert rule lag"]
    lag = Rule.objects.get(kind="lag")
    assert (lag.params, lag.channels.count()) == ({"minutes": 3.5, "hold_minutes": 9}, 2)
    assert unseal(Channel.objects.get(name="on call").secrets)["key"] == KEY
    moved = ENVIRON | {"ON_CALL_URL": "https://other.example.com/x"}
    with pytest.raises(ConfigurationError, match="signing key must be entered again"):
        apply(less, moved)
    nobody = FILE.replace("minutes: 3.5, channels: [mail, on call]", "channels: []")
    assert apply(nobody, moved) == [
        "channel on call: changed url",
        "replicator copy: alert rule lag",
    ]
    assert not Rule.objects.get(kind="lag").channels.exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (FILE.replace("[mail, on call]", "[mial]"), "unknown channel 'mial'"),
        (FILE.replace("lag: {", "lagg: {"), "Unknown alert rule 'lagg'"),
        (FILE.replace("minutes: 3.5", "seconds: 3.5"), "unknown key 'seconds'"),
        (FILE.replace("minutes: 3.5", "minutes: .nan"), "a number between"),
        (FILE.replace("enabled: false", "enabled: 0"), "true or false"),
        (FILE.replace("kind: webhook", "kind: pager"), "Unknown channel kind"),
        (FILE.replace("kind: email", "kind: slack"), "has no setting recipients"),
        (FILE.replace("ada@example.com, ", "ada, "), "not a valid e-mail address"),
        (FILE.replace('"${ON_CALL_URL}"', "ftp://x"), "https://"),
        (FILE.replace("{name: mail, ", "{"), "needs a name"),
    ],
)
def test_a_wrong_file_says_where_and_changes_nothing(wrong: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        apply(wrong, ENVIRON)
    assert not Channel.objects.exists()
    assert not Replicator.objects.exists()


def test_an_export_changes_nothing_here_and_makes_the_same_elsewhere() -> None:
    apply(FILE, ENVIRON)
    ensure_table(Replicator.objects.get(), TableId("shop", "orders"))  # as discovery does, without a selection entry
    orders = Replicator.objects.get().tables.get(name="orders")
    TableObjective.objects.create(table=orders, percent=99.5, seconds=7)
    text = export()
    assert not [secret for secret in ("pw\n", URL, KEY, "T0-s3cret-path") if secret in text]
    assert "# Set before: SHOP_PASSWORD, ON_CALL_URL, ON_CALL_KEY\n" in text
    before = facts()
    assert apply(text, ENVIRON) == []
    assert facts() == before
    forget()
    made = apply(text, ENVIRON)
    assert "replicator copy: SLO of shop.orders" in made
    after = facts()
    assert after["lines"] - before["lines"] == {("shop.orders", False, ())}  # until discovery, its line stands for it
    assert {key: value for key, value in after.items() if key != "lines"} == {
        key: value for key, value in before.items() if key != "lines"
    }
    assert apply(text, ENVIRON) == []


def test_every_objective_that_can_be_made_comes_back_as_it_was() -> None:
    apply(FILE, ENVIRON)
    objective = TableObjective.objects.get()
    for seconds in (1, 7, 41, 119, 305, 595, 3570, 86_340):
        TableObjective.objects.update(seconds=seconds)
        assert apply(export(), ENVIRON) == []
        objective.refresh_from_db()
        assert objective.seconds == seconds


def test_names_that_look_like_variables_or_make_the_same_one_are_no_trouble() -> None:
    for name in ("on call", "on-call", "7 – ночь", "${HOME}", "$${HOME}"):
        alerts.save_channel(name=name, kind="slack", url=URL)
    text = export()
    names = {item["url"] for item in yaml.safe_load(text)["channels"]}
    assert names == {"${ON_CALL_URL}", "${ON_CALL_URL_2}", "${_7_URL}", "${HOME_URL}", "${HOME_URL_2}"}
    environ = {name[2:-1]: URL for name in names}
    assert apply(text, environ) == []
    before = facts()
    forget()
    apply(text, environ)
    assert facts() == before


@pytest.mark.parametrize("text", ["${A}", "$${A}", "$$${A}", "a$b${", "${A:-b}", "}{$", "$"])
def test_a_literal_text_is_read_as_itself(text: str) -> None:
    assert parsed(yaml.safe_dump({"x": [literal(text)]}), {}) == {"x": [text]}


def test_one_replicator_comes_with_what_belongs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    other = """
connections: [{name: crm, kind: memory, config: {password: x}}]
channels: [{name: unused, kind: slack, url: "https://hooks.example.com/x"}]
replicators: [{name: other, connection: crm, tables: [crm.a]}]
"""
    apply(FILE, ENVIRON)
    apply(other, {})
    out = io.StringIO()
    call_command("export", "copy", stdout=out)
    found = yaml.safe_load(out.getvalue())
    assert [[item["name"] for item in found[key]] for key in ("connections", "channels", "replicators")] == [
        ["shop"],
        ["mail", "on call"],
        ["copy"],
    ]
    with pytest.raises(CommandError, match="Unknown replicator nothing"):
        call_command("export", "nothing")
    Replicator.objects.get(name="other").selection.update(database="a.b")
    [said] = [one["tables"] for one in yaml.safe_load(export())["replicators"] if one["name"] == "other"]
    assert all(str(one).startswith('"a.b".') for one in said)
