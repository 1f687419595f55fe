"""Reading accounts and the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from webapp.accounts.models import AuditEntry


@dataclass(frozen=True)
class AuditFilters:
    """Empty for everything; `about`: a part of the name."""

    who: str = ""
    kind: str = ""
    about: str = ""

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> AuditFilters:
        """Of a query string."""
        return cls(*(str(query.get(name) or "").strip() for name in cls.__dataclass_fields__))


def audit_log(filters: AuditFilters) -> QuerySet[AuditEntry]:
    """Newest first."""
    found = AuditEntry.objects.all()
    for name in ("who", "kind"):
        if value := getattr(filters, name):
            found = found.filter(**{name: value})
    return found.filter(about__icontains=filters.about) if filters.about else found
