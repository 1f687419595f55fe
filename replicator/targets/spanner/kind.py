"""What there is to know of the Spanner target without opening one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator.model.types import DataType, Kind
from replicator.sources.kind import read_guide
from replicator.targets.base import Capabilities, Target
from replicator.targets.kind import FULL, PARTIAL, Opening, Settings, TypeSupport
from replicator.targets.spanner.config import DESTINATION_FORM, SpannerDestination, destination, place
from replicator.targets.spanner.names import IDENTIFIERS, MAX_SCALE, MAX_WHOLE, TYPES, fits
from replicator.targets.warehouse.kind import CheckModule, Inspection, database_kind

if TYPE_CHECKING:
    from replicator.verification import SpannerConfig

CAPABILITIES = Capabilities(exactly_once="a position row in the transaction that has the rows", verified=True)
PROOF = (
    "Proven on the vendor’s emulator: the contract of targets and histories with faults run on Google’s own emulator of"
    " Spanner, not on Spanner. Not tested: sign-in, roles and grants, quotas, the limits of a commit (the emulator has"
    " none; Tidemark keeps to half of them, and a source transaction beyond that is seen in parts until its last"
    " commit), splits and hot spots, its speed and cost."
)
NOTES = {
    Kind.STRING: "A text of more than 2,621,440 characters stops the table. JSON is a text: PARSE_JSON reads it.",
    Kind.BINARY: "A value of more than 10 MiB stops the table.",
    Kind.FLOAT: "A float of 64 bits; the value is the same.",
    Kind.TIMESTAMP_NTZ: "Spanner has no time without a zone: the same date and time of day in UTC.",
}


def _types(kind: DataType) -> TypeSupport:
    if not fits(kind):
        note = f"NUMERIC has {MAX_WHOLE} digits before the point and {MAX_SCALE} behind; others are exact as texts."
        return TypeSupport(TYPES[Kind.STRING], PARTIAL, note)
    support = PARTIAL if kind.kind is Kind.TIMESTAMP_NTZ else FULL
    return TypeSupport(TYPES[kind.kind], support, NOTES.get(kind.kind, ""))


def _open(opening: Opening) -> Target:
    from replicator.targets.spanner.target import open_target  # noqa: PLC0415 - the client is loaded where it is needed

    return open_target(destination(opening.config), CAPABILITIES, opening.storage, opening.replicator)


def _dataset(settings: Settings) -> str:
    """OpenLineage's name of a Spanner database (openlineage.io/docs/spec/naming)."""
    one = destination(settings)
    return f"spanner://{one.project}:{one.instance}/{one.database}"


def _modules() -> tuple[CheckModule, Inspection[SpannerDestination]]:
    from replicator.targets.spanner import check, inspection  # noqa: PLC0415 - the client is loaded where it is needed

    return check, inspection


def _verification(settings: Settings) -> SpannerConfig:
    from replicator.targets.google_login import credentials  # noqa: PLC0415
    from replicator.verification import SpannerConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    one = destination(settings)
    login = None if one.plaintext else lambda scopes: credentials(one.settings, scopes)
    return SpannerConfig(one.project, one.instance, one.database, one.host, login)


SPANNER = database_kind(
    "spanner",
    "Google Cloud Spanner",
    "Tables in the schemas of a Spanner database.",
    proof=PROOF,
    destination=destination,
    modules=_modules,
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    place=place,
    dataset=_dataset,
    destination_form=DESTINATION_FORM,
    identifiers=IDENTIFIERS,
    verification=_verification,
    test_note="The test makes a schema and a table, writes and reads a row, and drops both. It takes a minute or more.",
    guide=read_guide(__file__),
)
