"""What a query of a view is answered with: its columns (`columns.txt` has them) and the rows that the user may see
(Database Reference, "Static Data Dictionary Views", "Dynamic Performance Views").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testing.servers.oracle.engine.catalog import DICTIONARY
from testing.servers.oracle.engine.kinds import DATE, NUMBER, Kind
from testing.servers.oracle.engine.session import Session
from testing.servers.oracle.engine.views.dictionary import DICTIONARY_VIEWS
from testing.servers.oracle.engine.views.performance import PERFORMANCE_VIEWS, contents

# Of columns.txt: NUMBER, DATE, a name, a text, LONG, RAW.
KINDS = {"n": NUMBER, "d": DATE, "t": Kind("VARCHAR2", 128), "c": Kind("VARCHAR2", 4000), "l": Kind("LONG"),
         "r": Kind("RAW", 8)}  # fmt: skip
COLUMNS = dict(line.split(" ", 1) for line in Path(__file__).with_name("columns.txt").read_text().splitlines())
VIEWS = DICTIONARY_VIEWS | PERFORMANCE_VIEWS


@dataclass(frozen=True)
class View:
    """relation: columns by name, with their names in Postgres and types; rows: of some of them, by name."""

    relation: dict[str, tuple[str, Kind]]
    rows: Callable[[Sequence[str]], Iterable[Sequence[Any]]]


def view(session: Session, name: str) -> View | None:
    """None where there is none, or the user may not read it."""
    name = name.replace("V_$", "V$", 1) if name.startswith(("V_$", "GV_$")) else name
    base, prefix = name.replace("GV$", "V$", 1) if name.startswith("GV$") else name, "ALL_"
    for one in ("ALL_", "DBA_", "USER_"):
        if name.startswith(one) and f"ALL_{name.removeprefix(one)}" in VIEWS:
            base, prefix = f"ALL_{name.removeprefix(one)}", one
    if base not in VIEWS or not _granted(session, name):
        return None
    kinds = {column: KINDS[kind] for column, _, kind in (one.rpartition(":") for one in COLUMNS[base].split())}
    names = tuple(kinds)
    own = prefix == "USER_" and "OWNER" in kinds
    shown = {"INST_ID": NUMBER, **kinds} if base != name and prefix == "ALL_" else kinds
    relation = {column: (f"n{at}", shown[column]) for at, column in enumerate(shown) if not own or column != "OWNER"}

    def rows(wanted: Sequence[str]) -> Iterable[Sequence[Any]]:
        if base == "V$LOGMNR_CONTENTS":
            return contents(session, wanted)
        places = [names.index(one) if one in names else None for one in wanted]
        found = (row for row in VIEWS[base](session, prefix) if not own or row[0] == session.user)
        return ([1 if at is None else row[at] for at in places] for row in map(tuple, found))

    return View(relation, rows)


def _granted(session: Session, name: str) -> bool:
    account = session.account
    if not name.startswith(("V$", "GV$", "DBA_")) or name in ("V$NLS_PARAMETERS", "V$VERSION"):
        return True
    shown = name.replace("V$", "V_$", 1)
    return account.has(*DICTIONARY) or any(grant[:2] == ("SYS", shown) for grant in account.grants)
