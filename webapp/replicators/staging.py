"""The staging location."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from replicator.staging.storage import Storage


def storage() -> Storage:
    """The staging location, one object for each that the settings have named in this process."""
    return _storage(settings.TIDEMARK_STAGING_URL)


@lru_cache(maxsize=4)
def _storage(url: str) -> Storage:
    return Storage(url)
