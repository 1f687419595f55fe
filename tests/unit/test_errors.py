"""Texts of errors can be stored in Postgres, regardless of where they come from."""

from __future__ import annotations

from replicator.errors import SourceError


def test_a_text_has_no_nul_character_however_it_came_there() -> None:
    error = SourceError("the server said a\0b", remedy="see \0")
    assert (error.message, error.remedy) == ("the server said a\ufffdb", "see \ufffd")
    error.message = f"t\0: {error.message}"
    error.remedy += "\0"
    assert "\0" not in error.message + error.remedy
