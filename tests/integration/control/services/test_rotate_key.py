"""The key of the stored secrets is changed by a command: everything is encrypted again, and readable all the while."""

from __future__ import annotations

import io
import stat
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import models

from replicator.errors import ConfigurationError
from tests.integration.control.conftest import SECRET
from webapp import environment
from webapp.alerts.models import Channel
from webapp.alerts.services import save_channel
from webapp.connections.models import Connection
from webapp.connections.secrets import unseal
from webapp.connections.selectors import full_config
from webapp.connections.services import update_connection
from webapp.installation import key_rotation
from webapp.replicators import services
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import SelectionEntry, _need_salt, salt_of
from webapp.replicators.targets import full_target

pytestmark = pytest.mark.django_db
MARK = "gAAAA"  # how a Fernet token begins


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TIDEMARK_SECRET_KEY", raising=False)
    settings.TIDEMARK_HOME = tmp_path
    restarted(settings)
    return tmp_path


@pytest.fixture
def stored(connection: Connection, user: User) -> Replicator:
    """Every kind of thing that has secrets."""
    kafka = {
        "kind": "kafka",
        "bootstrap_servers": "k:1",
        "security_protocol": "SASL_SSL",
        "username": "u",
        "password": SECRET,
    }
    made = services.create_replicator(
        name="k", connection=connection, selection=[SelectionEntry("shop", "orders")], target=kafka
    )
    _need_salt(made)
    save_channel(name="hook", kind="webhook", url="https://a.example/x", key=SECRET)
    return made


def restarted(settings: Any) -> None:
    """What a process has of the keys after its start."""
    settings.SECRET_KEY = environment.secret_key(settings.TIDEMARK_HOME)
    settings.SECRET_KEY_FALLBACKS = environment.old_secret_keys(settings.TIDEMARK_HOME)


def tokens() -> list[str]:
    """All that is encrypted, wherever in the database."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                look(item)
        if isinstance(value, str) and value.startswith(MARK):
            found.append(value)

    for model in apps.get_models():
        names = [
            f.attname
            for f in model._meta.concrete_fields
            if isinstance(f, models.TextField | models.CharField | models.JSONField)
        ]
        if names and model._meta.managed:
            look([list(row) for row in model._default_manager.values_list(*names)])
    return found


def rotated(*arguments: str) -> str:
    said = io.StringIO()
    call_command("rotate_key", *arguments, stdout=said)
    return said.getvalue()


def known(replicator: Replicator) -> list[Any]:
    fresh = Replicator.objects.get(pk=replicator.pk)
    hook = Channel.objects.get()
    return [
        full_config(fresh.connection),
        full_target(fresh),
        salt_of(fresh),
        unseal(hook.secrets),
    ]


def test_everything_is_encrypted_anew_and_stays_what_it_was(stored: Replicator, settings: Any, home: Path) -> None:
    before, old, old_tokens = known(stored), settings.SECRET_KEY, tokens()
    assert len(old_tokens) == 4
    said = rotated()
    new = (home / "secret.key").read_text().strip()
    assert new != old
    assert (home / "secret.key.old").read_text().strip() == old
    assert {stat.S_IMODE((home / name).stat().st_mode) for name in ("secret.key", "secret.key.old")} == {0o600}
    assert "4 secrets" in said
    assert old not in said + new
    assert not set(tokens()) & set(old_tokens)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = new, []
    (home / "secret.key.old").unlink()
    assert known(stored) == before


def test_a_process_that_was_not_started_anew_reads_on_and_what_it_writes_is_not_lost(
    stored: Replicator, settings: Any, home: Path
) -> None:
    before, old = known(stored), settings.SECRET_KEY
    rotated()
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = old, []  # it has been running since before
    assert known(stored) == before
    update_connection(
        connection=Connection.objects.get(), config={**Connection.objects.get().config, "password": "n3w"}
    )
    restarted(settings)
    assert full_config(Connection.objects.get())["password"] == "n3w"
    assert "1 secret " in rotated("--finish")
    assert not (home / "secret.key.old").exists()
    restarted(settings)
    assert settings.SECRET_KEY_FALLBACKS == []
    assert full_config(Connection.objects.get())["password"] == "n3w"
    assert known(stored)[1:] == before[1:]


def test_a_rotation_that_was_cut_off_goes_on_with_the_same_key(
    stored: Replicator, settings: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, whole = known(stored), key_rotation.rekey

    def cut_off() -> key_rotation.Rekeyed:
        raise KeyboardInterrupt

    monkeypatch.setattr(key_rotation, "rekey", cut_off)
    with pytest.raises(KeyboardInterrupt):
        rotated()
    new = (home / "secret.key").read_text()
    monkeypatch.setattr(key_rotation, "rekey", whole)
    restarted(settings)
    assert known(stored) == before
    rotated()
    assert (home / "secret.key").read_text() == new
    rotated("--finish")
    restarted(settings)
    assert known(stored) == before


def test_a_rotation_that_was_cut_off_before_the_new_key_makes_one(stored: Replicator, home: Path) -> None:
    del stored
    old = (home / "secret.key").read_text()
    (home / "secret.key.old").write_text(old)
    assert "4 secrets" in rotated()
    assert (home / "secret.key").read_text() != old


def test_a_key_of_the_environment_is_changed_there(
    stored: Replicator, settings: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, old = known(stored), settings.SECRET_KEY
    monkeypatch.setenv("TIDEMARK_SECRET_KEY", "a new one")
    restarted(settings)
    with pytest.raises(ConfigurationError, match="TIDEMARK_SECRET_KEY"):
        known(stored)
    with pytest.raises(CommandError, match="TIDEMARK_SECRET_KEY_OLD"):
        rotated()
    monkeypatch.setenv("TIDEMARK_SECRET_KEY_OLD", old)
    restarted(settings)
    assert known(stored) == before
    assert "4 secrets" in rotated()
    monkeypatch.delenv("TIDEMARK_SECRET_KEY_OLD")
    restarted(settings)
    assert known(stored) == before
    assert (home / "secret.key").read_text().strip() == old


def test_what_no_key_opens_is_named_and_left(stored: Replicator) -> None:
    Channel.objects.update(secrets=MARK + "broken")
    assert "alert channel hook" in rotated()
    assert Channel.objects.get().secrets == MARK + "broken"
    assert full_target(Replicator.objects.get(pk=stored.pk))["password"] == SECRET
