"""What the server answers when it refuses: a number, and Oracle's text for it (Database Error Messages)."""

from __future__ import annotations

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


def unsupported(what: object) -> OracleError:
    """What the emulator does not know is refused, never guessed."""
    return OracleError(3001, " ".join(str(what).split())[:300])
