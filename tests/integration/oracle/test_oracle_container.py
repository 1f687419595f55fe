"""A container database: its log is read in the root, by a common user that the guide's statements make.

What is relied on: the root has the log of all containers, and SRC_CON_NAME says whose
(https://docs.oracle.com/en/database/oracle/oracle-database/19/sutil/oracle-logminer-utility.html, "Using LogMiner in a
CDB"); V$ and GV$ views show a common user of the root rows of those containers that CONTAINER_DATA names
(https://docs.oracle.com/database/122/REFRN/about-dynamic-performance-views.htm,
https://docs.oracle.com/en/database/oracle/oracle-database/19/dbseg/managing-commonly-and-locally-granted-privileges.html).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import SourceMisconfigured
from replicator.sources import oracle as plugin
from replicator.sources.base import CheckResult, CheckStatus, KeyRange, ReadOptions
from replicator.sources.oracle import KIND
from testing.servers.oracle.server.embedded import ROOT_SERVICE, SERVICE, EmbeddedOracle
from tests.contract.oracle import OraclePlace
from tests.contract.place import REPLICATOR, changes
from tests.integration.oracle.test_oracle_source import check_an_open_transaction_is_read_whole

pytestmark = pytest.mark.integration
PASSWORD, GUIDE = "a1", Path(plugin.__file__).with_name("README.md")
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20))"
NUMBERS = itertools.count()


def guided(user: str) -> list[str]:
    """The statements of the guide's "Container databases", for this account and the emulator's database."""
    section = GUIDE.read_text().partition("## 3.")[2]
    block = section.partition("```sql\n")[2].partition("```")[0]
    lines = [re.sub(r"--.*", "", line) for line in block.splitlines()]
    text = re.sub(r"\bc##tidemark\b", user, " ".join(lines), flags=re.IGNORECASE).replace("…", PASSWORD)
    found = [one.strip() for one in text.replace("shoppdb", SERVICE).split(";") if one.strip()]
    assert len(found) > 10, "the guide has no such block"
    return found


def live_account(user: str) -> list[str]:
    """The statements that make the account of the guide's live run."""
    block = GUIDE.read_text().partition("<<'SQL'\n")[2].partition("SQL\n")[0]
    made = [one.rstrip(";") for one in block.splitlines() if re.match(r"CREATE USER|GRANT|ALTER USER", one)]
    assert len(made) == 3, "the guide has no such block"
    return [re.sub(r"\bc##tidemark\b", user, re.sub('"[^"]*"', f'"{PASSWORD}"', one)) for one in made]


@pytest.fixture
def root(oracle: EmbeddedOracle) -> Iterator[Any]:
    """An administrator's cursor in the root."""
    with closing(oracle.connect(service=ROOT_SERVICE)) as session, session.cursor() as cursor:
        yield cursor


@pytest.fixture
def place(oracle: EmbeddedOracle, root: Any) -> Iterator[OraclePlace]:
    """Read by an account that the guide made."""
    user = f"C##T{next(NUMBERS)}"
    for statement in guided(user):
        root.execute(statement)
    root.execute("ALTER SESSION SET CONTAINER = CDB$ROOT")
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute("ALTER DATABASE ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS")
    config = {**oracle.address, "service": ROOT_SERVICE, "pdb": SERVICE, "user": user, "password": PASSWORD}
    opened = OraclePlace(config, oracle.connect())
    yield opened
    opened.close()
    with closing(oracle.connect()) as session, session.cursor() as cursor:
        cursor.execute("ALTER DATABASE DROP SUPPLEMENTAL LOG DATA (ALL) COLUMNS")


def finding(place: OraclePlace, name: str = "container", **settings: str) -> CheckResult:
    return next(one for one in KIND.open({**place.config, **settings}).check() if one.name == name)


def test_the_guides_account_passes_the_check_and_reads_log_and_rows(place: OraclePlace) -> None:
    place.run(KEYED)
    start = place.follow("t")
    assert [one for one in place.source.check(place.tables) if one.status is CheckStatus.FAILED] == []
    place.run("INSERT INTO @.t VALUES (1, 'x')")
    assert changes(place.read(start), "id") == [("INSERT", 1)]
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    assert sum(batch.num_rows for batch in reader.read_chunk(place.table("t"), KeyRange()).batches) == 1
    reader.close()


def test_the_account_of_the_guides_live_run_makes_schemas_and_passes_the_check(
    oracle: EmbeddedOracle, root: Any
) -> None:
    user = f"C##L{next(NUMBERS)}"
    for statement in live_account(user):
        root.execute(statement)
    config = {**oracle.address, "service": ROOT_SERVICE, "pdb": SERVICE, "user": user, "password": PASSWORD}
    place = OraclePlace.live(config)
    place.run(KEYED)
    assert {one.name for one in place.source.check() if one.status is CheckStatus.FAILED} <= {"supplemental_min"}
    place.close()


def test_a_transaction_of_the_pluggable_database_that_stays_open_over_ranges_is_read_whole(
    place: OraclePlace, oracle: EmbeddedOracle
) -> None:
    check_an_open_transaction_is_read_whole(place, oracle)


def test_an_account_that_does_not_see_the_containers_transactions_is_told_the_sql_and_reads_nothing(
    place: OraclePlace, root: Any
) -> None:
    place.run(KEYED)
    start = place.follow("t")
    user = place.config["user"]
    root.execute(f"ALTER USER {user} SET CONTAINER_DATA = DEFAULT CONTAINER = CURRENT")
    found = finding(place)
    assert found.status is CheckStatus.FAILED
    assert "does not see the pluggable database ORCL" in found.detail
    assert found.remedy == f'ALTER USER "{user}" SET CONTAINER_DATA = ALL CONTAINER = CURRENT; -- in CDB$ROOT'
    for refused in (place.log.state, lambda: next(place.messages(start))):
        with pytest.raises(SourceMisconfigured) as error:
            refused()
        assert error.value.remedy == found.remedy
    root.execute(found.remedy.partition(";")[0])
    assert finding(place).status is CheckStatus.OK
    place.run("INSERT INTO @.t VALUES (1, 'x')")
    assert changes(place.read(start), "id") == [("INSERT", 1)]


def test_a_pluggable_database_that_is_closed_is_opened_by_the_remedy(place: OraclePlace, root: Any) -> None:
    assert finding(place).status is CheckStatus.OK
    root.execute(f"ALTER PLUGGABLE DATABASE {SERVICE} CLOSE IMMEDIATE")
    try:
        closed = finding(place)
        assert (closed.status, closed.detail) == (CheckStatus.FAILED, "The pluggable database ORCL is MOUNTED.")
        assert closed.remedy == 'ALTER PLUGGABLE DATABASE "ORCL" OPEN;'
    finally:
        root.execute('ALTER PLUGGABLE DATABASE "ORCL" OPEN')
    assert finding(place).status is CheckStatus.OK


def test_a_pluggable_database_that_is_missing_is_named(place: OraclePlace) -> None:
    found = finding(place, pdb="GONE")
    assert (found.status, found.detail) == (CheckStatus.FAILED, "The pluggable database GONE does not exist.")
    assert found.remedy.startswith("SELECT name, open_mode FROM v$pdbs;")


def test_an_account_that_may_not_read_the_list_of_pluggable_databases_is_told_the_grant(
    place: OraclePlace, root: Any
) -> None:
    user = place.config["user"]
    root.execute(f"REVOKE SELECT ON SYS.V_$PDBS FROM {user} CONTAINER = ALL")
    grant = f'GRANT SELECT ON SYS.V_$PDBS TO "{user}" CONTAINER = ALL;'
    for name in ("container", "views"):
        found = finding(place, name)
        assert found.status is CheckStatus.FAILED
        assert found.remedy.startswith(grant)
    root.execute(grant.rstrip(";"))
    assert {finding(place, name).status for name in ("container", "views")} == {CheckStatus.OK}
