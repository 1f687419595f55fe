"""Foreign key actions that the log does not show.

InnoDB carries ON DELETE and ON UPDATE actions out below the log: a parent's DELETE is there, the children's are not.
Where one may have happened, the child table is read again (docs/adr/0005-cascades.md); otherwise its copy would
silently keep rows that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow.compute as pc

from replicator.model.change import Cascade, ChangeBatch, Operation, UndecodableRows
from replicator.model.identifiers import TableId
from replicator.model.masks import MaskKind
from replicator.model.schema import BEFORE, OPERATION, Column


class Cascades:
    """The foreign keys of one plan."""

    def __init__(self, rules: Iterable[Cascade]) -> None:
        """As the catalog showed them."""
        self._by_parent: dict[TableId, list[Cascade]] = {}
        self.add(rules)

    def add(self, rules: Iterable[Cascade]) -> None:
        """Those of a statement in the log.  One that goes stays here: its child is read more often than need be."""
        for rule in rules:
            self._by_parent.setdefault(rule.parent, []).append(rule)

    def rename(self, old: TableId, new: TableId) -> None:
        """Foreign keys go with the tables at both their ends."""
        rules = [rule for some in self._by_parent.values() for rule in some]
        names = {old: new}
        self._by_parent.clear()
        self.add(
            replace(one, parent=names.get(one.parent, one.parent), child=names.get(one.child, one.child))
            for one in rules
        )

    def reached(self, batch: ChangeBatch) -> set[TableId]:
        """Children, and children of children, whose rows may have changed with these changes of their parent."""
        rules = self._by_parent.get(batch.table)
        if not rules:
            return set()
        operations = batch.data.column(OPERATION)
        deleted = Operation.DELETE in batch.hidden or pc.any(pc.equal(operations, Operation.DELETE.value)).as_py()
        first = {
            rule.child
            for rule in rules
            if (deleted and rule.on_delete) or (rule.on_update and _moved(batch, rule.columns))
        }
        return self._closure(first)

    def behind(self, message: UndecodableRows) -> set[TableId]:
        """The same for changes of which it is not known what they were."""
        done = {row.operation for row in message.rows} - {Operation.INSERT}
        return self.children(message.table) if done else set()

    def children(self, parent: TableId) -> set[TableId]:
        """And children of children."""
        return self._closure({rule.child for rule in self._by_parent.get(parent, ())})

    def _closure(self, tables: set[TableId]) -> set[TableId]:
        found, todo = set(tables), list(tables)
        while todo:
            for rule in self._by_parent.get(todo.pop(), ()):
                if rule.child not in found:
                    found.add(rule.child)
                    todo.append(rule.child)
        return found


def _moved(batch: ChangeBatch, columns: Iterable[str]) -> bool:
    """Did an UPDATE change one of these columns?"""
    if Operation.UPDATE in batch.hidden:
        return True  # not known, so assumed
    updates = pc.equal(batch.data.column(OPERATION), Operation.UPDATE.value)
    for name in columns:
        if name not in batch.schema.names or _hidden(batch.schema.column(name)):
            return bool(pc.any(updates).as_py())  # not known, so assumed
        changed = pc.not_equal(batch.data.column(name), batch.data.column(BEFORE + name))
        if pc.any(pc.and_(updates, pc.fill_null(changed, True))).as_py():  # noqa: FBT003 - pyarrow's signature
            return True
    return False


def _hidden(column: Column) -> bool:
    """Several values may look the same under its mask."""
    return column.masked is not None and column.masked.mask.kind is not MaskKind.HASH
