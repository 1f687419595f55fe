"""`manage.py migrate`: Django's, and the database of the lakehouse's catalog."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS, connections

from replicator.errors import ConfigurationError
from webapp import environment
from webapp.installation import catalog_database


class Command(migrate.Command):
    """What it only shows, or does to another database or by halves, makes none."""

    def handle(self, *args: Any, **options: Any) -> None:
        """CommandError where the catalog's database cannot be made."""
        super().handle(*args, **options)
        whole = not any(options.get(name) for name in ("app_label", "plan", "check_unapplied", "fake"))
        if not whole or options["database"] != DEFAULT_DB_ALIAS:
            return
        name = str(connections[DEFAULT_DB_ALIAS].settings_dict["NAME"])  # a test's is not that of the settings
        metadata = environment.with_database(settings.DATABASE_URL, name)
        try:
            catalog_database.prepare(metadata, settings.TIDEMARK_CATALOG_URL or environment.catalog_beside(metadata))
        except ConfigurationError as error:
            raise CommandError(f"{error.message} {error.remedy or ''}".strip()) from None
