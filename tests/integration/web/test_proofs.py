"""How a source was tested is said before a replicator of it starts: in the wizard, and in the documents."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from replicator.sources import registry
from tests.browser.factories import Installation
from tests.browser.fake_source import FakeSource
from tests.pages import page_text
from webapp.connections.models import Connection
from webapp.console.views.wizard_draft import Wizard
from webapp.destinations.services import built_in
from webapp.replicators.models import Draft

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
ROOT = Path(__file__).parents[3]
SAID = {
    "sqlserver": ("Preview", ("an emulator", "not against SQL Server", "Azure SQL", "Windows", "Entra")),
    "oracle": ("Experimental", ("never run against an Oracle server by us",)),
}
LABELLED = [kind for kind, one in registry.KINDS.items() if one.proof]


def test_only_these_sources_have_a_label() -> None:
    """Before a label is added or removed, the documents change (docs/live-runs.md)."""
    assert sorted(LABELLED) == sorted(SAID)


@pytest.mark.parametrize("kind", SAID)
def test_the_wizard_says_at_its_source_step_how_the_source_was_tested(browser: Client, kind: str) -> None:
    label, parts = SAID[kind]
    page = html.unescape(page_text(browser.get(reverse("replicators:new"), {"kind": kind})))
    assert registry.KINDS[kind].proof in page
    assert all(part in registry.KINDS[kind].proof for part in parts)
    assert f'<span class="tag">{label}</span>' in page


@pytest.mark.parametrize("kind", SAID)
def test_the_review_says_it_again_above_the_button_that_starts(
    browser: Client, made: Installation, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(registry.KINDS, kind, replace(registry.KINDS[kind], open=FakeSource))
    config = {"host": "db.internal", "port": 1, "user": "u", "database": "shop"}
    connection = Connection.objects.create(name=kind, kind=kind, config=config, last_check=[{"status": "ok"}])
    data = {"connection": connection.pk, "destination": built_in().pk, "target": {}, "options": {}}
    data |= {"selection": {"databases": ["shop"]}}
    draft = Draft.objects.create(user=made.user, step="review", name="a name", data=data)
    draft.data["assessed"] = Wizard(made.user, draft).fingerprint
    draft.save()
    response = browser.get(reverse("replicators:step", args=[draft.pk, "review"]))
    assert response.status_code == 200, response["Location"]
    page = html.unescape(response.content.decode())
    assert 'id="review-form"' in page
    assert page.index(registry.KINDS[kind].proof) < page.index('value="yes"')


@pytest.mark.parametrize("kind", SAID)
def test_the_documents_label_it(kind: str) -> None:
    one, (label, _) = registry.KINDS[kind], SAID[kind]
    readme, types, live = ((ROOT / name).read_text() for name in ("README.md", "docs/types.md", "docs/live-runs.md"))
    (sources,) = [part for part in readme.split("\n\n") if part.startswith("Sources:")]
    after = sources.partition(f"[{one.title}]")[2]
    assert re.match(rf"\([^)]*\)[^(\[]*\({label.lower()}: ", after)
    heading = f"## {one.title} ({label.lower()})\n\n"
    assert " ".join(types.partition(heading)[2].partition("\n\n")[0].split()) == one.proof
    assert f"plays {one.title}" in live.replace("\n", " ") or f" {one.title}" in live.partition("by stand-ins")[0]
    assert f"SOURCE={kind}" in live or f"(or `{kind}`)" in live
