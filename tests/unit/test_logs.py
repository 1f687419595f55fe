"""What is written to stdout: one JSON object a line, what it is about at its top, no secret."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from webapp.environment import http_url, one_of, secret
from webapp.logs import JsonFormatter, TextFormatter


def record(text: str, /, *, error: bool = False, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("tidemark.engine", logging.WARNING, __file__, 1, text, (), None)
    if fields:
        made.fields = fields
    if error:
        try:
            int("password=hunter2")
        except ValueError:
            made.exc_info = sys.exc_info()
    return made


def test_what_a_line_is_about_stands_at_its_top() -> None:
    detail = {"code": "log_large", "remedy": "raise the limit", "bytes": 12}
    line = json.loads(
        JsonFormatter().format(record("kept", replicator="shop", stage="control", table="", detail=detail))
    )
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "level": "warning",
        "logger": "tidemark.engine",
        "message": "kept",
        "replicator": "shop",
        "stage": "control",
        "code": "log_large",
        "detail": {"remedy": "raise the limit", "bytes": 12},
    }


def test_no_secret_is_in_a_line_wherever_it_hides(settings: Any) -> None:
    settings.TIDEMARK_METRICS_TOKEN = settings.SECRET_KEY = "tried"
    detail = {
        "nested": [{"url": "http://me:pw-3@host/"}],
        "Authorization": "Bearer lineage-token-2",
        "secret_key": "k-4",
    }
    made = record("tried it with token=metrics-token-1", error=True, detail=detail)
    for formatter in (JsonFormatter(), TextFormatter()):
        line = formatter.format(made)
        assert not [s for s in ("metrics-token-1", "lineage-token-2", "pw-3", "hunter2", "k-4") if s in line]
        assert "tried it with" in line


def test_a_records_fields_never_take_the_place_of_the_message() -> None:
    line = json.loads(JsonFormatter().format(record("true", message="false", level="debug")))
    assert (line["message"], line["level"]) == ("true", "warning")


def test_text_is_one_line_for_eyes() -> None:
    line = TextFormatter().format(record("stopped", replicator="shop", table="s.t", detail={"code": "table"}))
    assert line.split(" ", 1)[1] == "warning shop s.t [table] stopped"


def test_settings_from_the_environment_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "yaml")
    with pytest.raises(ValueError, match="must be one of json, text"):
        one_of("TIDEMARK_LOG_FORMAT", ("json", "text"))
    (tmp_path / "token").write_text("from-a-file\n")
    monkeypatch.setenv("A_TOKEN_FILE", str(tmp_path / "token"))
    assert secret("A_TOKEN") == "from-a-file"
    monkeypatch.setenv("A_TOKEN", "given")
    assert secret("A_TOKEN") == "given"
    monkeypatch.setenv("B_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="B_TOKEN_FILE cannot be read"):
        secret("B_TOKEN")
    monkeypatch.setenv("A_URL", "ftp://lineage")
    with pytest.raises(ValueError, match="A_URL must be an http"):
        http_url("A_URL")
