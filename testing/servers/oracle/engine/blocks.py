"""PL/SQL, as far as programs of change data capture write it: calls of packages one after another."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from testing.servers.oracle.engine.catalog import MINING
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.kinds import NUMBER
from testing.servers.oracle.engine.session import Session
from testing.servers.oracle.wire.calls import Bind, Outcome

_TOKEN = re.compile(
    r"\s+|--[^\n]*|/\*.*?\*/|(?P<string>'(?:[^']|'')*')|(?P<number>\d+)|(?P<bind>:\s*\w+)|(?P<arrow>=>|:=)"
    r"|(?P<word>[A-Za-z][\w$#]*(?:\.[A-Za-z][\w$#]*)*)|(?P<sign>[(),;+|-])",
    re.DOTALL,
)
CONSTANTS = {
    "DBMS_LOGMNR.NEW": 1, "DBMS_LOGMNR.REMOVEFILE": 2, "DBMS_LOGMNR.ADDFILE": 3, "DBMS_LOGMNR.COMMITTED_DATA_ONLY": 2,
    "DBMS_LOGMNR.SKIP_CORRUPTION": 4, "DBMS_LOGMNR.DDL_DICT_TRACKING": 8, "DBMS_LOGMNR.DICT_FROM_ONLINE_CATALOG": 16,
    "DBMS_LOGMNR.DICT_FROM_REDO_LOGS": 32, "DBMS_LOGMNR.NO_SQL_DELIMITER": 64, "DBMS_LOGMNR.PRINT_PRETTY_SQL": 512,
    "DBMS_LOGMNR.CONTINUOUS_MINE": 1024, "DBMS_LOGMNR.NO_ROWID_IN_STMT": 2048,
    "DBMS_LOGMNR.STRING_LITERALS_IN_STMT": 4096,
}  # fmt: skip
Value = int | str | None


class Block:
    """One, run once.  run: does a statement of SQL."""

    def __init__(
        self, session: Session, text: str, binds: Sequence[Bind], run: Callable[[str, Sequence[Bind]], object]
    ) -> None:
        self._session, self._binds, self._run = session, binds, run
        self._bound = 0
        self._names: dict[str, int] = {}
        self._outputs: dict[int, Bind] = {}
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise OracleError(6550, text[at : at + 20])
            if match.lastgroup:
                self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._at = 0

    def run(self) -> Outcome:
        if self._word() == "CALL":
            self._statement()
            return Outcome(outputs=self._outputs)
        self._need("BEGIN", back=True)
        while not self._take("END"):
            self._statement()
            self._take(";")
        return Outcome(outputs=self._outputs)

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _word(self) -> str:
        kind, text = self._peek()
        self._at += 1
        return text.upper() if kind == "word" else text

    def _take(self, text: str) -> bool:
        if self._peek()[1].upper() != text:
            return False
        self._at += 1
        return True

    def _need(self, text: str, *, back: bool = False) -> None:
        if back:
            self._at -= 1
        if not self._take(text):
            raise OracleError(6550, self._peek()[1])

    def _statement(self) -> None:
        kind, text = self._peek()
        if kind == "bind":
            self._at += 1
            place = self._place(text)
            self._need(":=")
            value = self._expression()
            self._outputs[place] = Bind(NUMBER, None if value is None else str(value))
            return
        name = self._word()
        if name == "NULL":
            return
        if name == "EXECUTE":
            self._need("IMMEDIATE")
            statement = self._expression()
            self._run(str(statement), ())
            return
        if name in ("COMMIT", "ROLLBACK"):
            self._session.commit() if name == "COMMIT" else self._session.rollback()
            return
        arguments = self._arguments()
        procedure = _PROCEDURES.get(name.removeprefix("SYS."))
        if procedure is None:
            raise OracleError(6550, name)
        procedure(self._session, arguments)

    def _arguments(self) -> dict[str, Value]:
        """By name, or by place as "0", "1" …"""
        found: dict[str, Value] = {}
        if not self._take("("):
            return found
        while not self._take(")"):
            name = str(len(found))
            if self._at + 1 < len(self._tokens) and self._tokens[self._at + 1][1] == "=>":
                name = self._word()
                self._at += 1
            found[name] = self._expression()
            self._take(",")
        return found

    def _expression(self) -> Value:
        value = self._term()
        while self._peek()[1] == "+":
            self._at += 1
            other = self._term()
            assert isinstance(value, int)
            assert isinstance(other, int)
            value += other
        return value

    def _term(self) -> Value:
        kind, text = self._peek()
        self._at += 1
        if kind == "string":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            return int(text)
        if kind == "bind":
            bind = self._binds[self._place(text)]
            value = bind.value if isinstance(bind.value, str) else None
            return int(value) if bind.kind.name == "NUMBER" and value else value
        known = {"NULL": None, "DBMS_FLASHBACK.GET_SYSTEM_CHANGE_NUMBER": self._session.scn(), **CONSTANTS}
        name = text.upper().removeprefix("SYS.")
        if name not in known:
            raise OracleError(6550, text)
        return known[name]

    def _place(self, text: str) -> int:
        """In a block, a name that stands twice is bound once."""
        name = text[1:].strip().upper()
        if name not in self._names:
            self._names[name] = len(self._names)
        if self._names[name] >= len(self._binds):
            raise OracleError(1008)
        return self._names[name]


def _miner(session: Session) -> None:
    if not session.account.has("LOGMINING", *MINING):
        raise OracleError(6550, "DBMS_LOGMNR")


def _add(session: Session, given: dict[str, Value]) -> None:
    _miner(session)
    session.miner.add(str(given.get("LOGFILENAME", given.get("0"))), given.get("OPTIONS", given.get("1")) or 3)


def _start(session: Session, given: dict[str, Value]) -> None:
    _miner(session)
    names = ("STARTSCN", "ENDSCN", "STARTTIME", "ENDTIME", "DICTFILENAME", "OPTIONS")
    if unknown := {*given} - {*names, *map(str, range(len(names)))}:
        raise unsupported(f"START_LOGMNR with {unknown}")
    if any(given.get(one) for one in ("STARTTIME", "ENDTIME", "DICTFILENAME")):
        raise unsupported("START_LOGMNR by time or with a dictionary's file")
    session.miner.start(int(given.get("STARTSCN") or 0), int(given.get("ENDSCN") or 0), int(given.get("OPTIONS") or 0))


def _end(session: Session, given: dict[str, Value]) -> None:
    del given
    _miner(session)
    session.miner.end()


_PROCEDURES = {
    "DBMS_LOGMNR.ADD_LOGFILE": _add, "DBMS_LOGMNR.START_LOGMNR": _start, "DBMS_LOGMNR.END_LOGMNR": _end,
    "DBMS_STATS.GATHER_TABLE_STATS": lambda *_: None, "DBMS_STATS.GATHER_SCHEMA_STATS": lambda *_: None,
    "DBMS_SESSION.SET_IDENTIFIER": lambda *_: None, "DBMS_APPLICATION_INFO.SET_MODULE": lambda *_: None,
}  # fmt: skip
