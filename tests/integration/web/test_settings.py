"""The settings page says of every option when a change of it takes effect."""

from __future__ import annotations

from dataclasses import fields

import pytest
from django.test import Client
from django.urls import reverse

from tests.browser.factories import Installation
from webapp.replicators.forms import OptionsForm
from webapp.replicators.options import ReplicatorOptions

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
# Told under another name; pausing snapshots is a button of its own, which says so.
UNDER = {"slo_percent": "slo", "slo_minutes": "slo", "ddl_policy": "ddl"}
ELSEWHERE = {"snapshot_paused"}


def test_every_option_says_when_a_change_takes_effect(browser: Client, made: Installation) -> None:
    page = browser.get(reverse("replicators:settings", args=[made.replicators["erp"].pk])).content.decode()
    for option in fields(ReplicatorOptions):
        if option.name not in ELSEWHERE:
            said = OptionsForm.effects[UNDER.get(option.name, option.name)]
            assert said.startswith("Takes effect "), option.name
            assert said in page, option.name
    for part in ("promises", "alerts", "quiet"):  # the other cards say it in their heads
        head = page.split(f'id="{part}"')[1].split("</div>")[0]
        assert "effect" in head, part
