"""What the server answers when it refuses: a number, and Oracle's text for it (Database Error Messages)."""

from __future__ import annotations

import random
import threading
from pathlib import Path

TEXTS = {
    int(line[:5]): line[6:].replace("\\n", "\n")
    for line in Path(__file__).with_name("errors.txt").read_text().splitlines()
}


class OracleError(Exception):
    """number: without ORA-; at: the place in the statement where it is known, from 0."""

    def __init__(self, number: int, *words: object, at: int = 0) -> None:
        text = TEXTS[number].format(*words)
        self.number, self.at = number, at
        self.message = f"ORA-{number:05}: {text}"
        super().__init__(self.message)


class AnsweredErrors:
    """Injected errors: answers to statements of one program, which are executed before the answer or not at all.

    Set by `ALTER SYSTEM SET answer_errors = 'PROGRAM,STATEMENTS,SHARE,SEED,TEXT,NUMBER,NUMBER…'`: about SHARE of the
    next STATEMENTS statements fail; 0 statements switch it off.
    """

    def __init__(self, wanted: str = ",0,0,0,") -> None:
        self._program, left, share, seed, self._text, *numbers = wanted.split(",")
        self._left, self._share, self._chance = int(left), float(share), random.Random(seed)  # noqa: S311
        self._numbers = [int(one) for one in numbers]
        self._lock = threading.Lock()

    def choose(self, program: str) -> tuple[OracleError, bool] | None:
        """The error, and whether the statement is done before; None: no error."""
        with self._lock:
            if not self._left or program != self._program:
                return None
            self._left -= 1
            if self._chance.random() >= self._share:
                return None
            error = OracleError(3001, self._text)
            error.number = self._chance.choice(self._numbers)
            error.message = f"ORA-{error.number:05}: {self._text}"
            return error, self._chance.choice((True, False))


def unsupported(what: object) -> OracleError:
    """What the emulator does not know is refused, never guessed."""
    return OracleError(3001, " ".join(str(what).split())[:300])
