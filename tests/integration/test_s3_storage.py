"""The staging location on a real S3 store: what every location can, and what only a store does."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from replicator.errors import ConfigurationError, StagingError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.staging.segment_file import SegmentFile, make_durable
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind
from replicator.targets.iceberg.spark.staged_files import FOLDER, FORGOTTEN, staged
from testing.servers.stores.s3 import EmbeddedS3
from webapp import environment

pytestmark = pytest.mark.integration
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
ROWS = pa.table({"n": range(200_000), "text": [f"{n} {n * n}" for n in range(200_000)]}, schema=SCHEMA)


@pytest.fixture
def storage(s3: EmbeddedS3, tmp_path: Path) -> Storage:
    return Storage(f"{s3.url}/{tmp_path.name}/staging/")


def put(storage: Storage, path: str, rows: pa.Table = ROWS) -> None:
    with storage.writer(path, SCHEMA) as file:
        file.write_table(rows)


def test_a_file_is_whole_or_not_there(storage: Storage, s3: EmbeddedS3) -> None:
    """More than one part of an upload; and no objects that stand for folders beside it."""
    file = SegmentFile(storage, "r1/t/large.parquet", SCHEMA, ())
    for _ in range(4):
        file.write(ROWS.to_batches())
        assert not storage.exists("r1/t/large.parquet")
    file.close()
    make_durable(storage, [file])
    assert file.size == storage.size("r1/t/large.parquet") > 10 * 1024 * 1024
    with storage.open("r1/t/large.parquet") as opened:
        assert sum(batch.num_rows for batch in opened.iter_batches()) == 4 * len(ROWS)
    assert [info.base_name for info in storage.files("")] == ["large.parquet"]
    abandoned = SegmentFile(storage, "r1/t/gone.parquet", SCHEMA, ())
    abandoned.write(ROWS.to_batches())
    abandoned.abandon()
    assert not storage.exists("r1/t/gone.parquet")
    del s3


def test_files_are_listed_with_their_age_and_deleted_alone_or_by_folder(storage: Storage) -> None:
    for path in ("r1/a/1.parquet", "r1/a/2.parquet", "r1/b/3.parquet", "r10/c/4.parquet"):
        put(storage, path, ROWS.slice(0, 10))
    assert len(storage.files("r1")) == 3
    assert all(abs(info.mtime.timestamp() - time.time()) < 120 for info in storage.files("r1"))
    storage.delete("r1/a/1.parquet")
    storage.delete("r1/a/1.parquet")
    assert not storage.exists("r1/a/1.parquet")
    storage.delete_tree("r1")
    storage.delete_tree("r1")
    assert [info.base_name for info in storage.files("")] == ["4.parquet"]
    assert storage.files("nothing") == []


def test_a_store_that_denies_access_is_told_as_one_without_the_secret(
    storage: Storage, s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(storage, "r1/t/1.parquet")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-" + s3.secret)
    closed = Storage(storage.url)
    for use in _uses(closed):
        error = _failure(use)
        assert isinstance(error, StagingError)
        assert error.retryable
        assert "denies access" in error.message
        assert "AWS_ACCESS_KEY_ID" in error.remedy
        assert s3.secret not in "".join(traceback.format_exception(error))


def test_a_bucket_that_is_not_there_is_the_users_to_make(s3: EmbeddedS3) -> None:
    error = _failure(lambda: put(Storage("s3://nowhere/staging"), "r1/t/1.parquet"))
    assert isinstance(error, ConfigurationError)
    assert not error.retryable
    assert "bucket nowhere does not exist" in error.message
    assert "TIDEMARK_STAGING_URL" in error.remedy
    del s3


def test_a_store_that_is_killed_is_waited_for(storage: Storage, s3: EmbeddedS3) -> None:
    put(storage, "r1/t/1.parquet")
    s3.stop(signal.SIGKILL)
    try:
        for use in _uses(storage):
            error = _failure(use)
            assert isinstance(error, StagingError)
            assert error.retryable
            assert "does not respond" in error.message
    finally:
        s3.start()
    with storage.open("r1/t/1.parquet") as file:
        assert file.metadata.num_rows == len(ROWS)


def test_spark_here_gets_copies_and_leaves_none(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    forgotten = tmp_path / f"{FOLDER}of-a-killed-worker"
    forgotten.mkdir()
    os.utime(forgotten, (time.time() - FORGOTTEN - 60,) * 2)
    for path in ("r1/a/1.parquet", "r1/a/2.parquet"):
        put(storage, path)
    segments = [_segment("r1/a/1.parquet"), _segment("r1/a/2.parquet")]
    with staged(storage, segments, here=True) as files:
        copies = [Path(file.uri.removeprefix("file://")) for file in files]
        assert [copy.stat().st_size for copy in copies] == [storage.size(segment.path) for segment in segments]
    assert not list(tmp_path.glob(f"{FOLDER}*"))
    with staged(storage, segments, here=False) as files:
        assert files[0].uri == storage.url.replace("s3:", "s3a:") + "/r1/a/1.parquet"


def test_a_temporary_folder_that_cannot_be_written_is_told(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    put(storage, "r1/a/1.parquet")
    monkeypatch.setattr("tempfile.tempdir", "/dev/full")
    with ExitStack() as stack, pytest.raises(StagingError, match="temporary folder"):
        stack.enter_context(staged(storage, [_segment("r1/a/1.parquet")], here=True))


@pytest.mark.parametrize("url", ["s3://key:word@bucket/x", "s3://bucket/x?access_key=a&secret_key=b"])
def test_credentials_in_a_location_are_refused_and_not_repeated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_STAGING_URL", url)
    with pytest.raises(ValueError, match="must not contain credentials") as raised:
        environment.location("TIDEMARK_STAGING_URL", Path("/x"), "staging", query=True)
    assert "word" not in str(raised.value)
    assert "bucket" not in str(raised.value)


def test_the_stores_address_may_stand_in_the_url(
    storage: Storage, s3: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(storage, "r1/t/1.parquet")
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    named = Storage(f"{storage.url}?scheme=http&endpoint_override=127.0.0.1:{s3.port}")
    assert named.exists("r1/t/1.parquet")
    assert named.uri("x").endswith("/staging/x")


def _uses(storage: Storage) -> list[Callable[[], object]]:
    def read() -> None:
        with storage.open("r1/t/1.parquet") as file:
            file.read()

    return [lambda: put(storage, "r1/t/2.parquet"), read, lambda: storage.files("r1")]


def _failure(use: Callable[[], object]) -> TidemarkError:
    with pytest.raises(TidemarkError) as raised:
        use()
    return raised.value


def _segment(path: str) -> Segment:
    return Segment(TableId("shop", "t"), SegmentKind.LOG, 1, 0, 1, path, 1, 1)
