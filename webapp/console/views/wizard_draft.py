"""The wizard's draft: its steps, and what each of them needs before the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import Http404

from replicator.errors import ConfigurationError
from replicator.sources.base import CheckResult, DatabaseInfo
from replicator.targets import registry
from replicator.targets.kind import TargetKind
from replicator.targets.registry import target_kind
from webapp.connections import selectors as connections
from webapp.connections.models import Connection
from webapp.connections.services import failed_table_checks
from webapp.console.views.draft_selection import Selected
from webapp.destinations.models import Destination
from webapp.replicators import services
from webapp.replicators.models import Draft
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.assessment import TableAssessment, assess
from webapp.replicators.selection.entries import selected

STEPS = ("source", "test", "tables", "target", "options", "assessment", "review")
TITLES = {
    "source": "Source",
    "test": "Test",
    "tables": "Tables",
    "target": "Target",
    "options": "Options",
    "assessment": "Assessment",
    "review": "Review",
}
CATALOG_SECONDS = 60
ASSESSMENT_SECONDS = 600
ASSESSED = ("connection", "destination", "target", "selection", "options")  # what an assessment depends on


@dataclass(frozen=True)
class Assessed:
    """`failed`: checks of the source that these tables do not pass."""

    tables: Sequence[TableAssessment]
    failed: Sequence[CheckResult]


@dataclass
class Wizard:
    """A draft, opened."""

    user: User
    draft: Draft | None

    @property
    def data(self) -> dict[str, Any]:
        return self.draft.data if self.draft else {}

    @property
    def name(self) -> str:
        return self.draft.name if self.draft else ""

    @property
    def connection(self) -> Connection | None:
        pk = self.data.get("connection")
        return None if pk is None else Connection.objects.filter(pk=pk).first()

    @property
    def source(self) -> Connection:
        """The connection; Http404 where it was deleted meanwhile (the step `source` is shown before that)."""
        found = self.connection
        if found is None:
            raise Http404
        return found

    @property
    def selected(self) -> Selected:
        return Selected.from_dict(self.data.get("selection", {}))

    @property
    def options(self) -> ReplicatorOptions:
        return ReplicatorOptions.from_dict(self.data.get("options", {}))

    @property
    def target(self) -> dict[str, Any]:
        """What the replicator sets of it for itself."""
        return dict(self.data.get("target", {}))

    @property
    def destination(self) -> Destination | None:
        """None where none was chosen yet, or it was deleted meanwhile."""
        return Destination.objects.filter(pk=self.data.get("destination") or 0).first()

    @property
    def kind(self) -> TargetKind:
        """Of the destination; the usual one while none is chosen."""
        place = self.destination
        return place.plugin if place else target_kind(registry.DEFAULT)

    def save(self, step: str, *, name: str | None = None, **changes: Any) -> None:
        """Store changes; `step` is where the user comes back to."""
        self.draft = services.save_draft(
            user=self.user,
            draft=self.draft,
            step=step,
            data=self.data | changes,
            name=self.name if name is None else name,
        )

    def reached(self, step: str) -> bool:
        """True where everything before `step` is answered."""
        return all(not self.missing(earlier) for earlier in STEPS[: STEPS.index(step)])

    def missing(self, step: str) -> str:
        """What a step still needs, in a sentence; empty where it is complete."""
        if step == "test":
            return self._missing_test()
        word = self.connection.database_word if self.connection else "database"
        complete, sentence = {
            "source": (self.connection is not None, "Choose a connection."),
            "tables": (not self.selected.empty, f"Select at least one table or one {word}."),
            "target": ("target" in self.data and self.destination is not None, "Select a destination."),
            "options": ("options" in self.data and self.name, "Enter a name and set the options."),
            "assessment": (
                self.data.get("assessed") == self.fingerprint,
                "Check the assessment of the tables.",
            ),
            "review": (True, ""),
        }[step]
        return "" if complete else sentence

    def _missing_test(self) -> str:
        status = self.connection.check_status if self.connection else ""
        if status == "failed":
            return "The connection test failed. Apply its remedies, then test again."
        return "" if status else "Test the connection."

    @property
    def fingerprint(self) -> str:
        """Of everything that the assessment depends on."""
        kept = {name: self.data.get(name) for name in (*ASSESSED, "accepted")}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]

    def databases(self) -> list[DatabaseInfo]:
        """Of the source, remembered for a minute."""
        source = self.source
        key = f"databases:{source.pk}:{source.updated_at.timestamp()}"
        found: list[DatabaseInfo] | None = cache.get(key)
        if found is None:
            found = connections.databases(source)
            cache.set(key, found, CATALOG_SECONDS)
        return found

    def assess(self, *, fresh: bool = False) -> Assessed:
        """Of the selected tables, remembered until the selection or the options change."""
        kept = json.dumps({name: self.data.get(name) for name in ASSESSED}, sort_keys=True)
        key = f"assessed:{self.user.pk}:{hashlib.sha256(kept.encode()).hexdigest()}"
        found: Assessed | None = None if fresh else cache.get(key)
        if found is None:
            entries = self.selected.entries()
            tables = assess(
                connection=self.source,
                selection=entries,
                options=self.options,
                target=self.kind,
                settings=self.target,
            )
            found = Assessed(tables, failed_table_checks(self.source, selected(entries)))
            cache.set(key, found, ASSESSMENT_SECONDS)
        return found


def open_wizard(user: User, draft_id: int, *, lock: bool = False) -> Wizard:
    """One's own draft; Http404 otherwise.

    lock: in a transaction, so that two quick clicks both count (each changes a part of the same JSON).
    """
    if lock:
        draft = Draft.objects.select_for_update().filter(user=user, pk=draft_id).first()
    else:
        draft = services.load_draft(user=user, draft_id=draft_id)
    if draft is None:
        raise Http404
    return Wizard(user, draft)


def create(wizard: Wizard, *, start: bool) -> Any:
    """Make the replicator and end the draft.  ConfigurationError where something is missing."""
    for step in STEPS[:-1]:
        if missing := wizard.missing(step):
            raise ConfigurationError(missing, remedy=f"Go back to the step {TITLES[step]}.")
    replicator = services.create_replicator(
        name=wizard.name,
        connection=wizard.source,
        selection=wizard.selected.entries(),
        destination=wizard.destination,
        target=wizard.target,
        options=wizard.options,
        user=wizard.user,
        start=start,
    )
    if wizard.draft is not None:
        services.discard_draft(user=wizard.user, draft_id=wizard.draft.pk)
    return replicator
