"""The contract is kept by every source: one line each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from tests.contract.live import PREFIX, SOURCE, live_settings
from tests.contract.mariadb import MariaDbPlace
from tests.contract.oracle import OracleKeptPlace, OraclePlace
from tests.contract.place import Place
from tests.contract.postgres import PostgresPlace
from tests.contract.sqlserver import SecondaryPlace, SqlServerPlace, TrackedPlace
from tests.plugins.sqlite_log.place import SqlitePlace

PLACES: Mapping[str, type[Place]] = {
    "mariadb": MariaDbPlace,
    "oracle": OraclePlace,
    "oracle_kept": OracleKeptPlace,
    "postgres": PostgresPlace,
    "sqlserver": SqlServerPlace,
    "sqlserver_secondary": SecondaryPlace,
    "sqlserver_tracking": TrackedPlace,
    "sqlite_log": SqlitePlace,
}


_LONG = {"oracle_kept", "sqlserver_secondary"}  # the same servers in another mode
_TRACKING = "_tracking" if os.environ.get(f"{PREFIX}CAPTURE") == "change_tracking" else ""
_PLAYED = [os.environ[SOURCE] + _TRACKING] if SOURCE in os.environ else PLACES
# By source, tests that take long on its stand-in: `make test-long` runs them.
SLOW: Mapping[str, str] = {"sqlserver": "test_a_transaction_ends_with_one_commit_however_large_it_is"}
# By source, what its server refuses: a captured table's columns keep their names.
REFUSED: Mapping[str, str] = dict.fromkeys(
    ("sqlserver", "sqlserver_secondary"), "test_a_column_left_out_that_is_renamed_stops_its_table"
)
# By source, the only tests that ask what it promises: Change Tracking tells net changes, of tables with a key, and its
# snapshots are those of the other way.
ONLY: Mapping[str, frozenset[str]] = {
    "sqlserver_tracking": frozenset({
        "test_a_server_that_is_set_up_right_passes_and_nothing_is_raised_for_one_that_is_not",
        "test_reading_resumes_at_every_commit_without_a_gap_or_a_repetition",
        "test_a_mark_is_met_in_the_log_between_the_changes_around_it",
        "test_a_column_left_out_that_is_renamed_stops_its_table",
        "test_a_quiet_log_says_so_with_a_place_to_resume_from",
        "test_columns_left_out_of_a_table_stay_so_under_its_next_name",
        "test_tables_that_the_source_had_are_told_before_a_place_that_covers_it",
        "test_rows_under_the_schema_that_holds_need_not_wait_for_the_log",
        "test_what_the_source_keeps_for_a_replicator_can_be_taken_away_twice",
        "test_an_empty_table_has_no_end_and_a_missing_one_is_an_error",
        "test_log_and_snapshot_give_equal_values_and_types",
    }),
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """SLOW: not at a real server."""
    items[:] = [one for one in items if _asked(one)]
    played = [one for one in items if isinstance(one, pytest.Function) and hasattr(one, "callspec")]
    for item in played if SOURCE not in os.environ else ():
        if SLOW.get(item.callspec.params.get("place", "")) == item.originalname:
            item.add_marker(pytest.mark.long)


def _asked(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return True
    place = str(item.callspec.params.get("place", ""))
    if REFUSED.get(place) == item.originalname:
        return False
    only = ONLY.get(place)
    return only is None or item.originalname in only


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.long if name in _LONG else ()) for name in _PLAYED])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kind = PLACES[request.param]
    opened = kind.live(live_settings()) if SOURCE in os.environ else kind.opened(request)
    yield opened
    opened.close()
