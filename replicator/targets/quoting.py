"""Names and texts in the examples that a reader pastes: SQL and shell."""

from __future__ import annotations


def double_quoted(name: str) -> str:
    """A name, as standard SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text, as standard SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def shell_word(text: str) -> str:
    """One word of a command line; bare where it needs no quotes."""
    return text if all(one.isalnum() or one in "-_./:+@=" for one in text) else "'" + text.replace("'", "'\\''") + "'"
