"""Conflicts of two users, or two tabs, on one form: the second to save is warned before other changes are overwritten.

A form carries a digest of what it was filled from.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.http import HttpRequest

from replicator.errors import ConfigurationError

FIELD = "as_of"
TOLD = "These settings were changed after the page was opened. Saving again overwrites them with the values shown."


def digest(stored: Any) -> str:
    """Of what JSON can hold."""
    text = json.dumps(stored, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


def changed_meanwhile(request: HttpRequest, stored: Any) -> bool:
    """Was the form that is sent filled from something else than what is stored now?

    False for one that does not say.
    """
    given = request.POST.get(FIELD, "")
    return request.method == "POST" and given not in {"", digest(stored)}


def refuse_if_changed(request: HttpRequest, stored: Any) -> None:
    """ConfigurationError where `changed_meanwhile`."""
    if changed_meanwhile(request, stored):
        raise ConfigurationError(TOLD)
