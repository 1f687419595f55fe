"""A remedy's statements are separated from its words, so that only SQL is pasted."""

from __future__ import annotations

import pytest

pytest.importorskip("django")


@pytest.mark.parametrize(
    ("remedy", "sql", "note"),
    [
        ("GRANT SELECT ON *.* TO 'u'@'%';", "GRANT SELECT ON *.* TO 'u'@'%';", ""),
        ("SET GLOBAL a = 1; (and in my.cnf; reconnect)", "SET GLOBAL a = 1;", "(and in my.cnf; reconnect)"),
        ("SET GLOBAL a = 1;\nSET GLOBAL b = 2;", "SET GLOBAL a = 1;\nSET GLOBAL b = 2;", ""),
        ("Set TLS to 'Always' in the connection", "", "Set TLS to 'Always' in the connection"),
        ("", "", ""),
    ],
)
def test_statements_come_apart_from_words(remedy: str, sql: str, note: str) -> None:
    from webapp.connections.presentation import split_remedy

    assert split_remedy(remedy) == (sql, note)
