"""The contract of sources at a real server: `make test-live SOURCE=sqlserver` (docs/live-runs.md).

A connection's settings are environment variables, TIDEMARK_LIVE_ and a field's name: TIDEMARK_LIVE_HOST=127.0.0.1.
Each test works in a new schema, which is dropped after it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from replicator.errors import ConfigurationError
from replicator.sources.base import CheckResult, CheckStatus, FormField
from replicator.sources.registry import source_kind

PREFIX, SOURCE = "TIDEMARK_LIVE_", "TIDEMARK_LIVE_SOURCE"
RECORD = Path(__file__).parents[2] / "docs" / "live-runs.md"


def settings_of(
    title: str, form: Sequence[FormField], valid: Callable[[dict[str, str]], object], environment: Mapping[str, str]
) -> dict[str, str]:
    """What the environment says of a form.  Raises ConfigurationError, which names the variables."""
    names = {one.name: PREFIX + one.name.upper() for one in form}
    found = {name: environment[variable] for name, variable in names.items() if environment.get(variable)}
    lacking = [
        names[one.name]
        for one in form
        if one.required and not one.default and one.meant(form, found) and one.name not in found
    ]
    if lacking:
        message = f"A live run needs an account at {title}. Not set: {', '.join(lacking)}."
        raise ConfigurationError(message, remedy=f"All variables: {', '.join(names.values())}.")
    valid(found)
    return found


def live_settings() -> dict[str, str]:
    """Of the source that the environment names."""
    kind = source_kind(os.environ[SOURCE])
    return settings_of(kind.title, kind.form, kind.valid, os.environ)


def passes(checks: Sequence[CheckResult]) -> bool:
    """Shows the connection test, up to what has failed."""
    for one in checks:
        sys.stdout.write(f"{one.status}: {one.title}: {one.detail} {one.remedy}\n")
        if one.status is CheckStatus.FAILED:
            return False
    return True


def play(title: str, tests: Path, environment: Mapping[str, str], arguments: Sequence[str]) -> int:
    """The tests, and a row of the record for a whole run that passed; the exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", str(tests), *arguments]
    started = datetime.now(UTC)
    done = subprocess.run(command, env=environment, check=False, stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout)
    if done.returncode == 0 and not arguments:  # a part proves nothing
        summary = done.stdout.strip().splitlines()[-1].strip("= ")
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], check=False, capture_output=True, text=True)
        with RECORD.open("a") as record:
            record.write(f"| {title} | {started:%Y-%m-%d} | {commit.stdout.strip()} | {summary} |\n")
    return done.returncode


def main(name: str, arguments: Sequence[str]) -> int:
    """Tests the connection, runs the contract, and records a run that passed."""
    os.environ[SOURCE] = name
    try:
        kind, settings = source_kind(name), live_settings()
    except ConfigurationError as error:
        sys.stderr.write(f"{error.message} {error.remedy}\n")
        return 2
    if not passes(kind.open(settings).check()):
        return 1
    return play(kind.title, Path(__file__).with_name("test_source.py"), os.environ, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
