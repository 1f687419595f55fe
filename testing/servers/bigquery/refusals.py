"""What BigQuery answers when it refuses: a reason, a text and an HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATUS: Mapping[str, int] = {
    "invalid": 400, "invalidQuery": 400, "badRequest": 400, "notFound": 404, "duplicate": 409, "conditionNotMet": 412,
    "accessDenied": 403, "quotaExceeded": 403, "rateLimitExceeded": 403, "jobRateLimitExceeded": 400, "stopped": 499,
    "backendError": 503, "jobBackendError": 400, "internalError": 500, "authError": 401,
}  # fmt: skip


class Refusal(Exception):
    """An answer that is none."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message

    @property
    def status(self) -> int:
        return STATUS.get(self.reason, 400)

    @property
    def proto(self) -> dict[str, str]:
        """As a job's status has it."""
        return {"reason": self.reason, "message": self.message}

    @property
    def body(self) -> dict[str, Any]:
        """As a request's answer has it."""
        error = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [error]}}


def conflict(place: str) -> Refusal:
    """Of two transactions, or of a transaction and another statement."""
    text = f"Transaction is aborted due to concurrent update against table {place}. Transaction ID: 1"
    return Refusal("invalidQuery", text)
