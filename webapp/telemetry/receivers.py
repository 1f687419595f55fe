"""Receivers of the signals of apps below this one.  Modules that a process seldom needs are imported on a signal."""

from __future__ import annotations

from webapp.telemetry.services import count_failure


def on_failed(*, replicator_id: int, stage: str, code: str, retried: bool, **_: object) -> None:
    """The receiver of `webapp.worker.signals.failed`."""
    count_failure(replicator_id=replicator_id, stage=stage, code=code, retried=retried)


def on_looked(**_: object) -> None:
    """The receiver of `webapp.worker.signals.looked`."""
    from webapp.telemetry.delivery import tell  # noqa: PLC0415 - half a second of a process's start

    tell()
