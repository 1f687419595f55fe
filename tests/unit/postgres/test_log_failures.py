"""What a server says of its log, as Tidemark's errors."""

from __future__ import annotations

import pytest

from replicator.errors import LogCorrupt, LogPurged, SourceUnreachable, TidemarkError
from replicator.sources.postgres.stream.reader import log_failure

DROP = "pg_drop_replication_slot('tidemark_1')"


@pytest.mark.parametrize(
    ("text", "state", "kind", "remedy"),
    [
        (
            'ERROR:  could not map filenumber "base/16387/17456" to relation OID\n',
            "XX000",
            LogCorrupt,
            "pg_drop_replication_slot('tidemark_1')",
        ),
        (
            'could not map filenode "base/16387/17456" to relation OID',
            "XX000",
            LogCorrupt,
            "pg_drop_replication_slot('tidemark_1')",
        ),
        ("requested WAL segment 00000001 has already been removed", "58P01", LogPurged, "from scratch"),
        ('replication slot "tidemark_1" does not exist', "42704", LogPurged, "from scratch"),
        ("terminating connection due to administrator command", "57P01", SourceUnreachable, "running"),
    ],
)
def test_what_ends_a_log_is_told_with_its_remedy(text: str, state: str, kind: type[TidemarkError], remedy: str) -> None:
    found = log_failure("tidemark_1", text, state)
    assert type(found) is kind
    assert text.strip() in found.message
    assert remedy in found.remedy
    assert found.retryable == (kind is not LogPurged)
