"""Connections and replicators as code: idempotent, all or nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from replicator.errors import ConfigurationError
from webapp.connections.models import Connection
from webapp.connections.selectors import full_config
from webapp.replicators.as_code import apply
from webapp.replicators.models import Desired, Replicator

pytestmark = pytest.mark.django_db
FILE = """
connections:
  - name: shop
    kind: memory
    config: {host: "${SHOP_HOST:-localhost}", password: "${SHOP_PASSWORD}"}
replicators:
  - name: copy
    connection: shop
    tables: ["shop.*", {table: crm.notes, exclude_columns: [body]}]
    exclude: ["shop.audit"]
    options: {slo_minutes: 1, ddl_policy: keep}
    state: running
"""
ENVIRON = {"SHOP_PASSWORD": "pw"}


def test_a_file_makes_what_it_says_and_a_second_time_nothing() -> None:
    assert apply(FILE, ENVIRON) == ["connection shop: created", "replicator copy: created", "replicator copy: running"]
    assert apply(FILE, ENVIRON) == []
    assert full_config(Connection.objects.get())["password"] == "pw"
    replicator = Replicator.objects.get()
    assert replicator.desired == Desired.RUNNING
    assert replicator.parsed_options.ddl_preset == "keep"
    lines = {(s.database, s.table, s.excluded, tuple(s.excluded_columns)) for s in replicator.selection.all()}
    assert lines == {("shop", "", False, ()), ("crm", "notes", False, ("body",)), ("shop", "audit", True, ())}


def test_changes_are_applied_and_named() -> None:
    apply(FILE, ENVIRON)
    changed = (
        FILE.replace("slo_minutes: 1", "slo_minutes: 2")
        .replace("state: running", "state: paused")
        .replace("crm.notes", "crm.calls")
    )
    assert apply(changed, {"SHOP_PASSWORD": "new"}) == [
        "connection shop: changed password",
        "replicator copy: selected crm.calls",
        "replicator copy: removed crm.notes",
        "replicator copy: changed slo_minutes",
        "replicator copy: paused",
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (FILE.replace("kind: memory", "kind: oracle9"), "oracle9"),
        (FILE.replace("shop.*", "shop"), "DATABASE.TABLE"),
        (FILE.replace("connection: shop", "connection: shp"), "shp"),
        (FILE.replace("slo_minutes", "slow_minutes"), "slow_minutes"),
        (FILE.replace("exclude:", "without:"), "without"),
        ("connections: [", "not YAML"),
    ],
)
def test_a_wrong_file_says_where_and_changes_nothing(wrong: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        apply(wrong, ENVIRON)
    assert not Connection.objects.exists()
    assert not Replicator.objects.exists()


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="SHOP_PASSWORD"):
        apply(FILE, {})


def test_the_commands_say_what_they_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "pw")
    path = tmp_path / "file.yml"
    path.write_text(FILE)
    out = io.StringIO()
    call_command("apply", str(path), stdout=out)
    call_command("apply", str(path), stdout=out)
    assert out.getvalue().splitlines()[-1] == "nothing to change"
    out = io.StringIO()
    call_command("status", "copy", json=True, stdout=out)
    assert '"status": "starting"' in out.getvalue()
    with pytest.raises(CommandError, match="no replicator named"):
        call_command("status", "other")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("apply", str(tmp_path / "absent.yml"))
