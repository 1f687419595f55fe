"""What replicators set for a target that takes SQL."""

from __future__ import annotations

from replicator.sources.base import FormField
from replicator.targets.shared_settings import PREFIX, SHARED_FORM

FORM = (
    FormField(
        PREFIX,
        "Schema prefix",
        required=False,
        keeps_secret=True,
        help="Prepended to the name of each source database, so that several sources can share a database.",
    ),
    *SHARED_FORM,
)
FIXED = {PREFIX: "Queries use these table names."}
