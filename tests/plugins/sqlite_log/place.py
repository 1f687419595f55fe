"""A file for the contract, and the spelling of its statements here."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Self

import pytest

from tests.contract.place import Place
from tests.plugins.sqlite_log import KIND, change_log

# A literal with more digits than a double has is given as text: as a number SQLite would round it.
_LONG_NUMBER = re.compile(r"(?<![\w.'])-?\d+\.\d{4,}(?![\w'])")


class SqlitePlace(Place):
    kind = KIND
    wrong = ({"file": "/nowhere/place.db"}, {"file": __file__})

    session: sqlite3.Connection

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        folder: Path = request.getfixturevalue("tmp_path")
        file = folder / "place.db"
        session = sqlite3.connect(file, isolation_level=None)
        change_log.install(session)
        return cls({"file": str(file)}, session, "main")

    def create(self) -> None:
        """It is there."""

    def drop(self) -> None:
        """It goes with the file."""

    def run(self, *statements: str) -> None:
        self._play(statements, "COMMIT")

    def undo(self, *statements: str) -> None:
        self._play(statements, "ROLLBACK")

    def _play(self, statements: tuple[str, ...], end: str) -> None:
        self.session.execute("BEGIN IMMEDIATE")
        for statement in statements:
            here = statement.replace("@", self.name).replace("numeric(20", "decimal_text(20")
            change_log.execute(self.session, _LONG_NUMBER.sub(r"'\g<0>'", here))
        self.session.execute(end)
