"""Endpoints: what a replicator reads from or writes to.

Secrets are encrypted at rest and appear in no text of the object (invariant 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import models

from replicator.sources.base import FormField
from replicator.sources.registry import KINDS, source_kind


class Endpoint(models.Model):
    """`config` holds the non-secret form fields; `secrets` the others, as one Fernet token of a JSON object."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=30)
    config = models.JSONField(default=dict)
    secrets = models.TextField(blank=True, editable=False)
    last_check = models.JSONField(default=list)
    last_checked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def kinds(cls) -> Mapping[str, Any]:
        """The plugins by name."""
        raise NotImplementedError

    @classmethod
    def form_of(cls, kind: str) -> Sequence[FormField]:
        """What a kind asks for; ConfigurationError for one that is not registered."""
        raise NotImplementedError

    @property
    def kind_title(self) -> str:
        """The kind in words; its name where no plugin has it any more."""
        return str(self.kinds()[self.kind].title) if self.kind in self.kinds() else self.kind

    @property
    def proof(self) -> str:
        """On what tests of its kind run; empty where no label is needed."""
        return str(self.kinds()[self.kind].proof) if self.kind in self.kinds() else ""

    @property
    def address(self) -> str:
        """Where it is, as lists show it; empty where its kind has no such setting."""
        return ""

    @property
    def testable(self) -> bool:
        """Is there something to try?"""
        return True

    @property
    def check_status(self) -> str:
        """Worst status of the last test: failed, warning, ok; empty where it was never tested.

        A failed check of single tables is a warning: the server can be used.
        """
        found = {"warning" if _of_tables_only(line) else line["status"] for line in self.last_check}
        return next((status for status in ("failed", "warning", "ok") if status in found), "")


def _of_tables_only(line: Mapping[str, Any]) -> bool:
    return line["status"] == "failed" and bool(line.get("of_tables"))


class Connection(Endpoint):
    """A source."""

    class Meta(Endpoint.Meta):
        pass

    @classmethod
    def kinds(cls) -> Mapping[str, Any]:
        """Of sources."""
        return KINDS

    @classmethod
    def form_of(cls, kind: str) -> Sequence[FormField]:
        """Of a source."""
        return source_kind(kind).form

    @property
    def database_word(self) -> str:
        """What users of this source call a database of the selection: "database" or "schema"."""
        return KINDS[self.kind].database_word if self.kind in KINDS else "database"

    @property
    def address(self) -> str:
        """Where the source is, in short."""
        return KINDS[self.kind].address(self.config) if self.kind in KINDS else ""

    @property
    def value_options(self) -> Sequence[FormField]:
        """What replicators of it may choose of how values are read."""
        return KINDS[self.kind].value_options if self.kind in KINDS else ()
