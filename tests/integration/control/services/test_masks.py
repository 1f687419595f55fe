"""Masks in the control plane: written, stored, refused, and shown before they are applied; the salt is never shown."""

from __future__ import annotations

import pytest

from replicator.errors import ConfigurationError
from replicator.model.masks import parse_masks
from replicator.model.row_filter import parse_filter
from replicator.state.tables import TableState
from tests.integration.control.conftest import ORDERS, Captured
from webapp.connections.secrets import unseal
from webapp.console.definitions.apply import apply
from webapp.console.definitions.export import export
from webapp.replicators import services
from webapp.replicators.models import Replicator, ReplicatorTable, SnapshotRun
from webapp.replicators.selection.change_preview import effects
from webapp.replicators.selection.entries import SelectionEntry, salt_of
from webapp.replicators.selectors import table_set
from webapp.worker.store.chunk_store import OrmChunkStore

pytestmark = pytest.mark.django_db
MASKS = {"mail": {"kind": "hash"}, "phone": {"kind": "partial", "first": 0, "last": 2}, "note": {"kind": "null"}}
HASHED = SelectionEntry("shop", "orders", masks=parse_masks({"mail": "hash"}))
FILE = """
connections: [{name: shop, kind: memory, config: {host: localhost, password: pw}}]
replicators:
  - name: copy
    connection: shop
    tables:
      - table: shop.orders
        mask: {mail: hash, phone: {kind: partial, last: 2}, note: null, name: {kind: fixed, value: 7}}
        row_filter: "id>9 and name<>'x'"
"""


def test_masks_are_applied_from_a_file_and_exported_as_they_are() -> None:
    apply(FILE)
    replicator = Replicator.objects.get()
    line = replicator.selection.get()
    assert line.row_filter == "id > 9 AND name <> 'x'"
    assert line.masks == MASKS | {"name": {"kind": "fixed", "value": "7"}}
    text = export()
    assert apply(text, {"SHOP_PASSWORD": "pw"}) == []
    assert apply(FILE) == []
    assert apply(FILE.replace("last: 2", "last: 3")) == ["replicator copy: selected shop.orders"]
    replicator.delete()
    apply(text, {"SHOP_PASSWORD": "pw"})
    again = Replicator.objects.get().selection.get()
    assert (again.masks, again.row_filter) == (line.masks, line.row_filter)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("{mail: scramble}", "mail: A mask is one of null, fixed, partial, hash, not 'scramble'"),
        ("{mail: {kind: hash, last: 2}}", "mail: A mask of the kind hash has no setting 'last'"),
        ("{mail: {kind: partial, last: -1}}", "0 to 1000 characters"),
        ("{mail: {kind: fixed}}", "mail: A fixed mask needs a value"),
        ("{mail: {kind: fixed, value: [1]}}", "a string or a number"),
        ("[mail]", "mask must be a mapping"),
    ],
)
def test_a_mask_that_makes_no_sense_is_refused_with_a_sentence(mask: str, said: str) -> None:
    text = FILE[: FILE.index("mask: ")] + f"mask: {mask}\n"
    with pytest.raises(ConfigurationError, match=said):
        apply(text)
    assert not Replicator.objects.exists()


def test_masks_are_for_single_tables_and_columns_that_are_taken(captured: Captured) -> None:
    masks = parse_masks({"mail": "hash"})
    for entry, said in (
        (SelectionEntry("shop", masks=masks), "not a single table"),
        (SelectionEntry("shop", "orders", excluded=True, masks=masks), "not a single table"),
        (SelectionEntry("shop", "orders", excluded_columns=("mail",), masks=masks), "excluded, so it cannot be masked"),
        (SelectionEntry("shop", row_filter=parse_filter("id > 1")), "not a single table"),
        (
            SelectionEntry("shop", "orders", excluded_columns=("name",), row_filter=parse_filter("name = 'x'")),
            "excluded, so rows cannot be filtered",
        ),
    ):
        with pytest.raises(ConfigurationError, match=said):
            services.add_tables(replicator=captured.replicator, selection=[SelectionEntry("crm"), entry])


def test_the_salt_is_made_once_and_sealed(captured: Captured) -> None:
    replicator = captured.replicator
    assert salt_of(replicator) == ""
    services.add_tables(replicator=replicator, selection=[HASHED])
    salt = salt_of(replicator)
    assert len(salt) == 64
    services.add_tables(replicator=replicator, selection=[SelectionEntry("shop", "orders")])
    services.add_tables(replicator=replicator, selection=[HASHED])
    assert salt_of(replicator) == salt
    sealed = Replicator.objects.values_list("secrets", flat=True).get(pk=replicator.pk)
    assert salt not in sealed
    assert unseal(sealed) == {"salt": salt}
    assert salt not in repr(table_set(replicator)) + export()
    assert repr(bytes.fromhex(salt)) not in repr(table_set(replicator))


def test_a_change_of_masks_makes_the_copy_anew_and_is_told_before(captured: Captured) -> None:
    replicator = captured.replicator
    tables = ReplicatorTable.objects.filter(replicator=replicator, name="orders")
    tables.update(state=TableState.STREAMING.value, tracked=True, load="a", load_complete=True, rows_estimate=1200)
    runs = SnapshotRun.objects.count()
    told = " ".join(effects(replicator, [HASHED]))
    assert "mail is masked (hashed with salt)" in told
    assert "about 1,200 rows" in told
    assert "new target table" in told
    assert runs == SnapshotRun.objects.count()
    services.add_tables(replicator=replicator, selection=[HASHED])
    row = tables.get()
    assert (row.state, row.tracked, row.load_complete) == ("loading", False, False)
    assert row.load != "a"
    assert effects(replicator, [HASHED]) == ["Nothing changes."]
    assert "no longer masked" in " ".join(effects(replicator, [SelectionEntry("shop", "orders")]))


def test_a_changed_row_filter_makes_the_copy_anew_too(captured: Captured) -> None:
    tables = ReplicatorTable.objects.filter(replicator=captured.replicator, name="orders")
    tables.update(state=TableState.STREAMING.value, tracked=True, load="a", load_complete=True)
    entry = SelectionEntry("shop", "orders", row_filter=parse_filter("id > 9"))
    assert "only rows with id > 9" in " ".join(effects(captured.replicator, [entry]))
    services.add_tables(replicator=captured.replicator, selection=[entry])
    assert tables.get().state == "loading"
    assert str(table_set(captured.replicator).row_filters[ORDERS]) == "id > 9"


def test_a_column_left_out_is_read_again_beside_the_copy(captured: Captured) -> None:
    tables = ReplicatorTable.objects.filter(replicator=captured.replicator, name="orders")
    tables.update(state=TableState.STREAMING.value, tracked=True, load="a", load_complete=True)
    entry = SelectionEntry("shop", "orders", excluded_columns=("note",))
    assert "The target table stays readable" in " ".join(effects(captured.replicator, [entry]))
    services.add_tables(replicator=captured.replicator, selection=[entry])
    assert (tables.get().state, tables.get().load) == ("reloading", "a")


def test_no_reader_takes_a_chunk_of_a_plan_that_is_younger_than_it(captured: Captured) -> None:
    captured.begin()
    replicator = Replicator.objects.get(pk=captured.replicator.pk)
    store = OrmChunkStore(replicator.pk, replicator.plan_version)
    assert [run.table for run in store.to_plan()] == [ORDERS]
    services.resnapshot_table(table=ReplicatorTable.objects.get(replicator=replicator, name="orders"))
    assert store.to_plan() == []
    assert len(OrmChunkStore(replicator.pk).to_plan()) == 1
