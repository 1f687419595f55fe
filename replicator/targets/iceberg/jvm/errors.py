"""What Spark, Java and py4j raise, in Tidemark's words: the reason, never the stack, never a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from replicator.errors import (
    SparkUnavailable,
    StorageFull,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    ValueDoesNotFit,
)
from replicator.redaction import redacted
from replicator.targets.iceberg.jvm.connect import is_server_error, without_answer

_FREE = "Free space at the location of the target's tables."
_REMOTE = (
    "Check that the Spark Connect server runs and that SPARK_REMOTE points to it. Tidemark then resumes automatically."
)
_MIGRATE = (
    "Create the database (`manage.py migrate` makes that of this installation's lakehouse), or correct the address of"
    " the catalog."
)
_BUCKET = "Create the bucket, or correct the warehouse of the destination."
_LIMITS = "Retried automatically. If it persists, check the store's health and its request limits."
_AS_IT_IS = (
    "Change what the catalog does not take: the format version, partitions, sort order or properties among the"
    " replicator's target settings."
)
_WORKERS = "Give the workers AWS credentials (environment, profile or role of the machine). Retried automatically."
_ASKED = "Retried automatically: the table itself says what it holds."
_REACH = "Check the address of the destination and that its catalog runs. Tidemark then resumes automatically."
_REFUSED = (
    "NotAuthorizedException", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "token has expired",
    "does not exist in our records", "security token included in the request", "password authentication failed",
)  # fmt: skip
_MORE = "Give Spark's driver more memory, or merge fewer rows at a time."
_KINDS: Sequence[tuple[tuple[str, ...], Callable[[str], TidemarkError]]] = (
    (
        ("No space left on device", "Disk quota exceeded"),
        lambda text: StorageFull(f"The target's storage is full: {text}", remedy=_FREE),
    ),
    (
        ("Invalid S3 URI", "Wrong FS"),
        lambda text: TargetError(f"The table's files are in another store than the destination's: {text}"),
    ),
    (
        ('FATAL: database "',),
        lambda text: TargetError(f"The database of the catalog is missing: {text}", remedy=_MIGRATE),
    ),
    (("OutOfMemoryError",), lambda _: SparkUnavailable("Spark ran out of memory.", remedy=_MORE)),
    (
        ("CommitFailedException", "ValidationException", "AlreadyExistsException", "NoSuchTableException"),
        lambda text: TargetConflict(f"Another writer changed the target table: {text}"),
    ),
    (
        ("Unable to load credentials",),
        lambda _: TargetUnauthorized("The workers have no AWS credentials.", remedy=_WORKERS),
    ),
    (_REFUSED, lambda text: TargetUnauthorized(f"The catalog or the store refuses the credentials: {text}")),
    (
        ("ForbiddenException", "AccessDenied", "Access Denied"),
        lambda text: TargetUnauthorized(f"The catalog or the store does not allow it: {text}"),
    ),
    (("NoSuchBucket",), lambda text: TargetError(f"The bucket does not exist: {text}", remedy=_BUCKET)),
    (
        ("reduce your request rate", "TooManyRequests"),
        lambda text: TargetError(f"The catalog or the store asks for fewer requests: {text}", remedy=_LIMITS),
    ),
    (
        ("BadRequestException", "Malformed request"),
        lambda text: TargetError(f"The catalog does not take the table as it is: {text}", remedy=_AS_IT_IS),
    ),
    (
        ("CommitStateUnknownException",),
        lambda text: TargetError(f"The catalog did not say whether the change was committed: {text}", remedy=_ASKED),
    ),
    (
        (
            "ServiceUnavailableException",
            "ServiceFailureException",
            "HttpHostConnectException",
            "ConnectException",
            "SocketTimeoutException",
            "UnknownHostException",
            "NoHttpResponseException",
        ),
        lambda text: TargetError(f"The catalog or the store does not answer: {text}", remedy=_REACH),
    ),
    (
        (
            "CAST_OVERFLOW",
            "CAST_INVALID_INPUT",
            "NUMERIC_VALUE_OUT_OF_RANGE",
            "ARITHMETIC_OVERFLOW",
            "NUMERIC_OUT_OF_SUPPORTED_RANGE",
        ),
        lambda text: ValueDoesNotFit(f"A value does not fit its column in the target: {text}"),
    ),
)  # what Java says → what it is
_GONE = ("SparkContext was shut down", "stopped SparkContext", "SparkContext has been shutdown")
# The last one is py4j's word for a class that it cannot ask for any more; all that are asked for are there.
_UNANSWERED = ("Answer from Java side is empty", "An error occurred while calling", "does not exist in the JVM")
_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more|== |\^|JVM stacktrace)")
_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+([A-Z]\w*)(?::\s*|$)")
_UNTOLD = ("SparkException", "Py4JJavaError", "ExecutionException", "RuntimeException")
MAX_TEXT = 400
MAX_STACK = 12_000


def jvm_is_gone(error: BaseException) -> bool:
    """True where no answer can come any more."""
    if isinstance(error, (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError)):
        return True
    if isinstance(error, TidemarkError) or is_server_error(error):
        return False
    if isinstance(error, Py4JJavaError):  # its own text asks the JVM for the whole stack
        return any(mark in text for _, text in _causes(error) for mark in _GONE)
    text = str(error)
    unanswered = isinstance(error, Py4JError) and any(mark in text for mark in _UNANSWERED)
    return unanswered or any(mark in text for mark in _GONE)


def translated(error: Exception) -> Exception:
    """The Tidemark error for `error`; `error` itself where it is one already, or none of Spark's."""
    if isinstance(error, TidemarkError):
        return error
    if jvm_is_gone(error):
        return SparkUnavailable("The Spark process ended and is restarted.")
    if without_answer(error):
        return SparkUnavailable("The Spark Connect server does not respond, or was restarted.", remedy=_REMOTE)
    causes = list(_causes(error))
    if not causes and not isinstance(error, Py4JError):
        return error
    whole = "\n".join(f"{name}: {text}" for name, text in causes) + str(getattr(error, "_stacktrace", "") or "")
    text = redacted(reason(error))[:MAX_TEXT]
    for marks, made in _KINDS:
        if any(mark in whole for mark in marks):
            return made(text)
    return TargetError(f"The target refused: {text}")


def reason(error: BaseException) -> str:
    """The first line that says something, of the innermost cause that has one."""
    causes = list(_causes(error)) or [(type(error).__name__, str(error))]
    for name, text in reversed(causes):
        if line := _first_line(text):
            short = name.rsplit(".", 1)[-1]
            return line if short in _UNTOLD or short in line else f"{short}: {line}"
    return causes[0][0].rsplit(".", 1)[-1]


def stack_of(error: BaseException) -> str:
    """Where Java raised it, its causes below; empty where Java says nothing or is gone."""
    if isinstance(error, TidemarkError) or jvm_is_gone(error):
        return ""
    try:
        text = str(error) if isinstance(error, Py4JJavaError) else _python_stack(error)
    except (Py4JError, OSError):
        return ""
    return redacted(text)[:MAX_STACK]


def _python_stack(error: BaseException) -> str:
    """What pyspark keeps of Java's stack, by an attribute of Spark's own process or of a Connect server."""
    return str(getattr(error, "_stackTrace", "") or getattr(error, "_stacktrace", "") or "")


def _first_line(text: str) -> str:
    for line in text.splitlines():
        plain = _CLASS.sub("", line.strip())
        if plain and not _FRAME.match(line):
            return plain
    return ""


def _causes(error: BaseException) -> Iterator[tuple[str, str]]:
    """Class name and message of each Java throwable of the chain, outermost first; none for an error without Java."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None and hasattr(error, "getErrorClass"):  # Spark Connect: the text is all there is
        yield type(error).__name__, str(error)
        return
    for _ in range(12):
        if java is None:
            return
        try:
            yield str(java.getClass().getName()), str(java.getMessage() or "")
            java = java.getCause()
        except Py4JError:
            return
