"""Google's own parser of GoogleSQL, for tests: it refuses what BigQuery would not take for a statement.

It is a native library for Linux behind a JVM, which py4j asks; its jars are fetched on first use.  Only the grammar is
looked at: the parser knows no table, column or type.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from webapp.embedded.java_artifacts import all_fetched, java, listed
from webapp.embedded.ports import LOOPBACK

JARS = Path(__file__).parent / "googlesql_jars.txt"
OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC"]
NEEDED = "Google's parser of GoogleSQL is published for Linux on x86-64."


def available() -> bool:
    """Is there one for this machine?"""
    return sys.platform == "linux" and platform.machine() in {"x86_64", "AMD64"}


class GoogleSqlParser:
    """A parser, within the block."""

    def __enter__(self) -> Self:
        jars = map(str, all_fetched(listed(JARS)))
        port, token = launch_gateway(
            classpath=os.pathsep.join(jars), javaopts=OPTIONS, java_path=java(), enable_auth=True, die_on_exit=True
        )
        told = GatewayParameters(address=LOOPBACK, port=port, auth_token=token, auto_convert=True)
        self._gateway = JavaGateway(gateway_parameters=told)
        self._parser: Any = self._gateway.jvm.com.google.zetasql.Parser
        self._options: Any = self._gateway.jvm.com.google.zetasql.LanguageOptions()
        self._options.enableMaximumLanguageFeatures()
        self._options.setSupportsAllStatementKinds()
        return self

    def __exit__(self, *raised: object) -> None:
        self._gateway.shutdown()

    def refusal(self, script: str) -> str:
        """Return the parser's error for a script, or an empty text if it parses."""
        try:
            self._parser.parseScript(script, self._options)
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        return ""
