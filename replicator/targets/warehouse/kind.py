"""What all kinds of targets that take SQL answer alike.  Loads no client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from replicator.model.types import DataType
from replicator.sources.base import CheckResult, FormField
from replicator.targets.base import Capabilities, Target, TargetTable
from replicator.targets.iceberg.destination import LakeCatalog
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import InspectedTable, Opening, Preview, Settings, TargetKind, TypeSupport
from replicator.targets.shared_settings import PREFIX, SHARED_EFFECTS, SHARED_FORM, check_prefix, prefixed

if TYPE_CHECKING:
    from replicator.verification import TargetConfig

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
D = TypeVar("D")
D_contra = TypeVar("D_contra", contravariant=True)


class CheckModule(Protocol):
    """A kind's module `check`."""

    def check(self, settings: Settings, /) -> list[CheckResult]: ...

    def check_written(self, settings: Settings, /) -> CheckResult: ...


class Inspection(Protocol[D_contra]):
    """A kind's module `inspection`."""

    def report(self, destination: D_contra, table: TargetTable, /) -> InspectedTable | None: ...

    def preview(self, destination: D_contra, table: TargetTable, rows: int, /) -> Preview | None: ...


def database_kind(  # noqa: PLR0913 - what differs, all by name
    name: str,
    title: str,
    about: str,
    *,
    destination: Callable[[Settings], D],
    modules: Callable[[], tuple[CheckModule, Inspection[D]]],
    open: Callable[[Opening], Target],  # noqa: A002 - as in `TargetKind`
    capabilities: Capabilities,
    types: Callable[[DataType], TypeSupport],
    place: Callable[[Settings], str],
    dataset: Callable[[Settings], str],
    destination_form: Sequence[FormField],
    verification: Callable[[Settings], TargetConfig],
    proof: str,
    test_note: str,
    guide: str,
    identifiers: IdentifierPolicy,
    refused_column: Callable[[str], str] = lambda _: "",
    clean: Callable[[Opening, float], int] | None = None,
    holder: str = "database",
) -> TargetKind:
    """See `TargetKind`.

    destination: what its settings say, or ConfigurationError; modules: loads the client; holder: what has the tables.
    """

    def valid(settings: Settings) -> None:
        destination(settings)
        check_prefix(settings)

    def check(settings: Settings) -> list[CheckResult]:
        return modules()[0].check(settings)

    def written(settings: Settings) -> CheckResult:
        return modules()[0].check_written(settings)

    def report(settings: Settings, own: LakeCatalog, namespace: str, name: str) -> InspectedTable | None:
        del own
        return modules()[1].report(destination(settings), TargetTable(namespace, name))

    def preview(settings: Settings, own: LakeCatalog, table: TargetTable, rows: int) -> Preview | None:
        del own
        return modules()[1].preview(destination(settings), table, rows)

    def beside_the_lake(answer: Callable[[Settings], Any]) -> Callable[[Settings, LakeCatalog], Any]:
        return lambda settings, _: answer(settings)

    effect = f"Takes effect within a minute. The {holder} must have the tables written so far."
    return TargetKind(
        name,
        title,
        about,
        refused_column=refused_column,
        proof=proof,
        open=open,
        capabilities=capabilities,
        types=types,
        namespace=prefixed,
        place=place,
        dataset=beside_the_lake(dataset),
        form=FORM,
        destination_form=destination_form,
        valid=valid,
        identifiers=identifiers,
        fixed={PREFIX: "Queries use these table names."},
        effects={one.name: effect for one in destination_form} | SHARED_EFFECTS,
        check=check,
        written=written,
        report=report,
        preview=preview,
        clean=clean,
        verification=beside_the_lake(verification),
        test_note=test_note,
        guide=guide,
    )
