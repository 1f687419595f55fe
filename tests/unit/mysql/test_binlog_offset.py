from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.sources.mysql.offset import BinlogOffset, GtidPosition, GtidSet, parse_offset

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_an_offset_survives_its_json_form() -> None:
    offset = BinlogOffset("mysql-bin.000003", 1462, f"{UUID}:1-5")
    again = parse_offset(offset.to_dict())
    assert (again, again.gtid) == (offset, offset.gtid)
    assert str(offset) == "mysql-bin.000003:1462"
    assert offset.to_dict()["kind"] == "mysql"


def test_offsets_order_by_the_number_of_the_file_and_not_by_its_text() -> None:
    places = [BinlogOffset("b.999999", 900), BinlogOffset("b.1000000", 4), BinlogOffset("b.1000000", 5)]
    assert sorted([places[2], places[0], places[1]]) == places
    assert places[0] < places[1] <= places[2]


@pytest.mark.parametrize("data", [{}, {"kind": "postgres"}, {"kind": "mysql", "file": "b.1", "position": "x"}])
def test_what_is_no_offset_is_refused(data: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        parse_offset(data)


def test_gtid_sets_keep_tags_and_join_neighbours() -> None:
    text = f"{UUID}:1-5:7,\n{UUID}:blue:1:3-4"
    found = GtidSet.parse(text)
    assert str(found) == f"{UUID}:1-5:7,{UUID}:blue:1:3-4"
    found.add(UUID, 6)
    assert str(found).startswith(f"{UUID}:1-7,")
    assert GtidSet.parse(f"{UUID}:2-3") in found
    assert GtidSet.parse(f"{UUID}:8") not in found
    assert found.tagged


@given(st.lists(st.integers(1, 40)))
def test_a_gtid_set_holds_what_was_added_in_any_order(numbers: list[int]) -> None:
    found = GtidSet()
    for number in numbers:
        found.add(UUID, number)
    assert {n for low, high in found.sources.get(UUID, []) for n in range(low, high + 1)} == set(numbers)
    assert GtidSet.parse(str(found)).sources == found.sources


def test_a_position_follows_the_transactions_of_either_server() -> None:
    mysql = GtidPosition(f"{UUID}:1-5")
    mysql.add(f"{UUID}:6")
    assert str(mysql) == f"{UUID}:1-6"
    mariadb = GtidPosition("0-1-100,10-2-7")
    mariadb.add("10-3-8")
    mariadb.add("2-1-1")
    assert str(mariadb) == "0-1-100,2-1-1,10-3-8"


def test_a_position_that_began_unknown_stays_unknown_until_the_log_tells() -> None:
    position = GtidPosition()
    position.add("0-1-101")
    assert str(position) == ""
    position.reset("0-1-101")
    position.add("0-1-102")
    assert str(position) == "0-1-102"
