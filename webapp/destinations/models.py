"""Destinations, stored like connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replicator.sources.base import FormField
from replicator.targets.kind import TargetKind
from replicator.targets.registry import KINDS, target_kind
from webapp.connections.models import Endpoint


class Destination(Endpoint):
    """Several replicators may use one; what each of them sets for itself is in `Replicator.target`."""

    class Meta(Endpoint.Meta):
        pass

    @classmethod
    def kinds(cls) -> Mapping[str, Any]:
        """Of targets."""
        return KINDS

    @classmethod
    def form_of(cls, kind: str) -> Sequence[FormField]:
        """How a destination of the kind is reached."""
        return target_kind(kind).destination_form

    @property
    def plugin(self) -> TargetKind:
        """Its kind, as it is there.  ConfigurationError where that is not registered."""
        return target_kind(self.kind).at(self.config)

    @property
    def address(self) -> str:
        """Where it is, as lists show it."""
        return str(KINDS[self.kind].place(self.config)) if self.kind in KINDS else ""

    @property
    def testable(self) -> bool:
        """Does its kind have a test?"""
        return self.kind in KINDS and KINDS[self.kind].check is not None
