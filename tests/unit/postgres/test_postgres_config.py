"""A connection's settings: what the form gives, and the names that follow from a replicator's."""

from __future__ import annotations

import re
from typing import Any

import pytest

from replicator.errors import ConfigurationError
from replicator.sources.postgres.config import FORM, MAX_NAME, PostgresConfig, TlsMode

LEAST = {"host": " db.example ", "database": "shop"}


def test_texts_of_a_form_become_settings() -> None:
    config = PostgresConfig.parse(
        LEAST
        | {"port": "6543", "tls": "verify-full", "retention_limit_mb": "2048", "event_trigger": "yes", "user": "u"}
    )
    assert (config.host, config.port, config.tls, config.retention_limit_mb) == (
        "db.example",
        6543,
        TlsMode.VERIFY_FULL,
        2048,
    )
    assert config.event_trigger
    assert config.where == "db.example:6543/shop"


def test_what_is_left_empty_has_its_default() -> None:
    empty: dict[str, Any] = {field.name: "" for field in FORM}
    assert PostgresConfig.parse(empty | LEAST) == PostgresConfig("db.example", database="shop")
    assert PostgresConfig.parse({"host": "h", "user": "ann"}).database == "ann"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"host": ""}, "host"),
        ({"database": ""}, "database"),
        ({"port": "70000"}, "port"),
        ({"tls": "required"}, "tls"),
        ({"slot": "My-Slot"}, "slot"),
        ({"publication": "p" * 64}, "publication"),
        ({"retention_limit_mb": "0"}, "retention_limit_mb"),
        ({"event_trigger": "perhaps"}, "event_trigger"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        PostgresConfig.parse(LEAST | wrong)


def test_secrets_are_in_no_text_of_it() -> None:
    assert "s3cret" not in repr(PostgresConfig("h", password="s3cret", ca="s3cret"))


def test_each_replicator_has_a_slot_that_postgres_allows_and_no_other_has() -> None:
    config = PostgresConfig("h")
    names = [
        "shop",
        "Shop",
        "sales-eu",
        "sales_eu",
        "sales.eu",
        "r12-a1b2c3d4e5f6",
        "",
        "日本",
        "日木",
        "x" * 54,
        "x" * 55,
        "x" * 56,
    ]
    slots = [config.slot_for(name) for name in names]
    assert len(set(slots)) == len(names)
    assert all(re.fullmatch(r"tidemark_[a-z0-9_]*", slot) and len(slot) <= MAX_NAME for slot in slots)
    assert config.slot_for("shop") == config.publication_for("shop") == "tidemark_shop"
    assert config.slot_for("r12-a1b2c3d4e5f6").startswith("tidemark_r12_a1b2c3d4e5f6_")


def test_what_the_user_brings_is_taken_for_every_replicator() -> None:
    config = PostgresConfig.parse(LEAST | {"slot": "mine", "publication": "Ours"})
    assert (config.slot_for("a"), config.publication_for("b")) == ("mine", "Ours")
