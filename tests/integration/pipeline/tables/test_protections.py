"""What a selection protects stays protected when the source renames its tables (invariant 12)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from django.core.management.base import CommandError

from replicator.model.masks import parse_masks
from replicator.model.row_filter import parse_filter
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.integration.pipeline.tables.test_masks import seen_outside
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.models import TableSelection
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
COLUMNS = "(id INT PRIMARY KEY, mail VARCHAR(80), ssn VARCHAR(80), v INT)"


@pytest.fixture
def mark() -> str:
    """In every text that must not be seen."""
    return f"Zq7{uuid.uuid4().hex[:8]}"


def insert(lab: Lab, table: str, mark: str, *ones: int) -> None:
    with lab.transaction() as cursor:
        rows = [(one, f"{mark}{one}@x", f"{mark}s{one}", one % 3 - 1) for one in ones]
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s, %s)", rows)


@pytest.fixture
def postgres_lab(postgres_source: EmbeddedPostgresSource, transactional_db: Any) -> Iterator[PostgresLab]:
    one = PostgresLab(postgres_source.address, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def replicate(lab: Lab, *more: SelectionEntry) -> None:
    """The whole database, and `people` with all kinds of protection."""
    people = SelectionEntry(
        lab.database,
        "people",
        excluded_columns=("ssn",),
        masks=parse_masks({"mail": "hash"}),
        row_filter=parse_filter("v >= 0"),
    )
    selection = [SelectionEntry(lab.database), people, *more]
    services.create_replicator(name=lab.name, connection=lab.connection(), selection=selection, start=True)


def protected(lab: Lab, name: str) -> tuple[list[str], list[str], str]:
    """What the line of the table says: columns left out, masked columns, row filter."""
    line = TableSelection.objects.get(replicator=lab.replicator, database=lab.database, table=name)
    return line.excluded_columns, sorted(line.masks), line.row_filter


def make(lab: Lab, *tables: str) -> None:
    lab.execute(*(f"CREATE TABLE {table} {COLUMNS}" for table in tables))
    if isinstance(lab, PostgresLab):  # a row filter needs whole rows
        lab.execute(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in tables))


def follow(lab: Lab, mark: str) -> None:
    """A table `people` with nine rows, and a copy of it."""
    make(lab, "people")
    insert(lab, "people", mark, *range(9))
    replicate(lab)
    lab.run_and_compare(1)


def test_a_renamed_table_keeps_its_masks_its_row_filter_and_what_is_left_out(any_lab: Lab, mark: str) -> None:
    lab = any_lab
    follow(lab, mark)
    lab.execute("ALTER TABLE people RENAME TO persons")
    insert(lab, "persons", mark, 10, 11, 12)
    assert lab.run_and_compare(1) == 8
    assert protected(lab, "persons") == (["ssn"], ["mail"], "v >= 0")
    (told,) = lab.replicator.timeline.filter(kind="table_renamed")
    assert told.summary.endswith("; it keeps its excluded columns, masks, row filter")
    insert(lab, "persons", mark, 20, 21)
    lab.run_and_compare(1)
    services.resnapshot_table(table=lab.table("persons"), reason="a test")
    lab.run_and_compare(1)
    make(lab, "people")
    insert(lab, "people", mark, 1, 2)
    assert lab.run_and_compare(2) == 11
    assert seen_outside(mark) == []


def test_tables_that_swap_their_names_show_nothing_that_either_protects(any_lab: Lab, mark: str) -> None:
    lab = any_lab
    make(lab, "people", "other")
    insert(lab, "people", mark, *range(9))
    lab.execute("INSERT INTO other VALUES (1, 'shown', 'shown', 1)")
    replicate(lab)
    lab.run_and_compare(2)
    for one, other in (("people", "p2"), ("other", "people"), ("p2", "other")):
        lab.execute(f"ALTER TABLE {one} RENAME TO {other}")
    insert(lab, "other", mark, 20, 21)
    lab.execute("INSERT INTO people VALUES (2, 'shown', 'shown', 1)")
    lab.run_and_compare(2)
    assert protected(lab, "people") == protected(lab, "other") == (["ssn"], ["mail"], "v >= 0")
    insert(lab, "other", mark, 30, 31)
    lab.run_and_compare(2)
    assert seen_outside(mark) == []


def test_protections_go_to_a_name_that_has_a_line_of_its_own_without_any(any_lab: Lab, mark: str) -> None:
    lab = any_lab
    make(lab, "people", "persons")
    insert(lab, "people", mark, *range(9))
    replicate(lab, SelectionEntry(lab.database, "persons"))
    lab.run_and_compare(2)
    lab.execute("DROP TABLE persons", "ALTER TABLE people RENAME TO persons")
    insert(lab, "persons", mark, 10, 11)
    lab.run_and_compare(1)
    insert(lab, "persons", mark, 20, 21)
    lab.run_and_compare(1)
    assert protected(lab, "persons") == (["ssn"], ["mail"], "v >= 0")
    assert seen_outside(mark) == []


@pytest.mark.parametrize("seen", [False, True], ids=["in one run", "in an earlier run"])
def test_a_table_that_failed_is_protected_under_its_next_name(any_lab: Lab, mark: str, *, seen: bool) -> None:
    lab = any_lab
    follow(lab, mark)
    lab.execute("ALTER TABLE people RENAME COLUMN mail TO post")
    insert(lab, "people", mark, 10, 11)
    if seen:
        with pytest.raises(CommandError, match="people has no column mail"):
            lab.run()
    lab.execute("ALTER TABLE people RENAME COLUMN post TO mail", "ALTER TABLE people RENAME TO persons")
    insert(lab, "persons", mark, 20, 21)
    with pytest.raises(CommandError, match="people has no column mail"):  # a table that was named is missed
        lab.run()
    services.remove_table(replicator=lab.replicator, table=lab.table("people"))
    services.resnapshot_table(table=lab.table("persons"), reason="on Postgres the column's name came back too late")
    assert lab.run_and_compare(1) == 9
    insert(lab, "persons", mark, 30, 31)
    lab.run_and_compare(1)
    assert protected(lab, "persons") == (["ssn"], ["mail"], "v >= 0")
    assert seen_outside(mark) == []


def test_a_rename_that_the_log_has_not_told_yet_makes_no_unprotected_table(any_lab: Lab, mark: str) -> None:
    """A user adds a table meanwhile, so that the catalog is read."""
    lab = any_lab
    make(lab, "people", "late", "gone")
    insert(lab, "people", mark, *range(9))
    replicate(lab, SelectionEntry(lab.database, "late", excluded=True))
    lab.run_and_compare(2)
    lab.execute("ALTER TABLE people RENAME TO persons", "DROP TABLE gone")
    insert(lab, "persons", mark, 10, 11, 12)
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "late")])
    assert lab.run_and_compare(2) == 8
    assert protected(lab, "persons") == (["ssn"], ["mail"], "v >= 0")
    assert seen_outside(mark) == []


def test_a_table_renamed_before_a_restart_from_scratch_is_known_where_the_source_numbers_its_tables(
    postgres_lab: PostgresLab, mark: str
) -> None:
    lab = postgres_lab
    follow(lab, mark)
    services.stop_replicator(replicator=lab.replicator)
    lab.execute("ALTER TABLE people RENAME TO persons")
    insert(lab, "persons", mark, 10, 11, 12)
    services.start_anew(replicator=lab.replicator)
    with suppress(CommandError):  # a table that was named is missed
        lab.run()
    assert lab.assert_equal() == 8
    assert protected(lab, "persons") == (["ssn"], ["mail"], "v >= 0")
    assert seen_outside(mark) == []


def test_what_either_name_protects_holds_for_the_renamed_table(any_lab: Lab, mark: str) -> None:
    lab = any_lab
    make(lab, "people", "persons")
    insert(lab, "people", mark, *range(9))
    other = SelectionEntry(
        lab.database,
        "persons",
        excluded_columns=("mail",),
        masks=parse_masks({"ssn": "hash", "v": "null"}),
        row_filter=parse_filter("id < 100"),
    )
    replicate(lab, other)
    lab.run_and_compare(2)
    lab.execute("DROP TABLE persons", "ALTER TABLE people RENAME TO persons")
    insert(lab, "persons", mark, 10, 11, 110)
    assert lab.run_and_compare(1) == 8
    insert(lab, "persons", mark, 20, 21, 120)
    assert lab.run_and_compare(1) == 9
    assert protected(lab, "persons") == (["mail", "ssn"], ["v"], "id < 100 AND v >= 0")
    assert seen_outside(mark) == []


def test_a_column_left_out_that_is_renamed_stops_its_table(any_lab: Lab, mark: str) -> None:
    lab = any_lab
    follow(lab, mark)
    lab.execute("ALTER TABLE people RENAME COLUMN ssn TO number")
    insert(lab, "people", mark, 10, 11)
    with pytest.raises(CommandError, match="people has no column ssn, which is excluded"):
        lab.run()
    assert lab.table("people").error_code == "selection_does_not_fit"
    services.resnapshot_table(table=lab.table("people"), reason="somebody hopes that it helps")
    with pytest.raises(CommandError, match="people has no column ssn, which is excluded"):
        lab.run()
    assert seen_outside(mark) == []
    line = TableSelection.objects.get(replicator=lab.replicator, table="people")
    entry = replace(SelectionEntry.of(line), excluded_columns=("number",))
    services.add_tables(replicator=lab.replicator, selection=[entry])
    assert lab.run_and_compare(1) == 8
    assert seen_outside(mark) == []


def test_a_table_that_failed_and_does_not_fit_under_its_next_name_either_is_protected_there(
    any_lab: Lab, mark: str
) -> None:
    lab = any_lab
    follow(lab, mark)
    lab.execute("ALTER TABLE people RENAME COLUMN mail TO post")
    insert(lab, "people", mark, 10, 11)
    with pytest.raises(CommandError, match="people has no column mail"):
        lab.run()
    lab.execute("ALTER TABLE people RENAME TO persons")
    insert(lab, "persons", mark, 20, 21)
    with pytest.raises(CommandError, match="persons has no column mail"):
        lab.run()
    assert protected(lab, "persons") == (["ssn"], ["mail"], "v >= 0")
    services.resnapshot_table(table=lab.table("persons"), reason="somebody hopes that it helps")
    with pytest.raises(CommandError, match="persons has no column mail"):
        lab.run()
    assert seen_outside(mark) == []
