"""What to do about a DDL statement: the policy of the replicator applied to the difference it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replicator.errors import UnsupportedDdl
from replicator.model.change import Ddl, SchemaChange
from replicator.model.evolution import EvolutionPlan, plan_evolution
from replicator.model.schema import TableSchema
from replicator.state.journal import DdlAction


@dataclass(frozen=True, slots=True)
class Decision:
    """`action` for the statement; `keep_dropped` where dropped columns stay in the target; `text` is shown to
    people.
    """

    action: DdlAction
    keep_dropped: bool
    text: str


_WHOLE_TABLE = {
    Ddl.TRUNCATE_TABLE: "truncate",
    Ddl.DROP_TABLE: "drop_table",
    Ddl.RENAME_TABLE: "rename_table",
}


def decide(change: SchemaChange, old: TableSchema | None, policy: Mapping[str, DdlAction]) -> Decision:
    """The policy's word on `change`; `old` is the table's schema before it."""
    if (kind := _WHOLE_TABLE.get(change.operation)) is not None:
        action = policy.get(kind, DdlAction.APPLY)
        return Decision(action, keep_dropped=False, text=f"{kind.replace('_', ' ')}: {_past(action)}")
    if change.operation is not Ddl.ALTER_TABLE or old is None or change.schema is None:
        return Decision(DdlAction.APPLY, keep_dropped=False, text="applied")
    return _decide_alter(plan_evolution(old, change.schema, change.renamed_columns), policy, reload=change.reload)


def _decide_alter(plan: EvolutionPlan, policy: Mapping[str, DdlAction], *, reload: bool) -> Decision:
    parts = {
        "add_column": [c.name for c in plan.added],
        "drop_column": list(plan.dropped),
        "rename_column": [f"{old} to {new}" for old, new in plan.renamed],
        "change_type": [c.name for c in (*plan.widened, *plan.replaced)],
    }
    present = {kind: names for kind, names in parts.items() if names}
    stopped = [kind for kind in present if policy.get(kind) is DdlAction.STOP]
    keep_dropped = policy.get("drop_column") is DdlAction.IGNORE and bool(plan.dropped)
    words = [f"{kind.replace('_', ' ')} {', '.join(names)}" for kind, names in present.items()]
    if stopped:
        return Decision(DdlAction.STOP, keep_dropped=False, text=f"stopped by policy: {'; '.join(words)}")
    text = "; ".join(words) or "nothing to change in the target"
    text += "; dropped columns stay in the target" if keep_dropped else ""
    text += "; table resnapshotted because values of existing rows may have changed" if reload else ""
    return Decision(DdlAction.APPLY, keep_dropped, text)


def _past(action: DdlAction) -> str:
    return {DdlAction.APPLY: "applied", DdlAction.IGNORE: "ignored by policy", DdlAction.STOP: "stopped by policy"}[
        action
    ]


def stopped_by_policy(change: SchemaChange, decision: Decision) -> UnsupportedDdl:
    """The error that stops the table."""
    message = (
        f"{change.table} was changed by a statement that the DDL policy of the replicator does not allow:"
        f" {change.statement[:300]}"
    )
    remedy = (
        "Remove the table from the replicator, and add it under its present name if it has one. To replicate such"
        " statements in future, change the DDL policy of the replicator."
        if change.operation in {Ddl.DROP_TABLE, Ddl.RENAME_TABLE}
        else "Resnapshot the table with its current schema. To replicate such statements in future, change the DDL"
        " policy of the replicator first."
    )
    return UnsupportedDdl(f"{message} ({decision.text})", remedy=remedy, table=str(change.table))
