"""Damaged binary logs, through the decoders as they run: a clear error or a right answer.

The mutants run in a separate process (tests/property/decoding.py), so that one that ends the process is seen too.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from replicator.errors import TidemarkError
from replicator.sources.mysql.snapshot.row_kernel import BAD, END, FULL, LARGE, MORE, split_rows
from replicator.sources.mysql.stream.file_reader import read_file
from tests.golden.make_binlogs import FOLDER, LOGS
from tests.property.budget import examples, seed
from tests.property.mutations import Log, mutate, open_log
from webapp.embedded.mariadb import EmbeddedMariaDB

ROOT = Path(__file__).parents[3]
GOLDEN = sorted(FOLDER.iterdir())


def _faults(files: list[Path], count: int) -> list[str]:
    start = seed()
    print(f"seed {start}, {count} mutants")
    command = [sys.executable, "-m", "tests.property.decoding", str(start), str(count), *map(str, files)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200 + count / 10, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"seed {start}: the process ended behind {lines[-1:]}:\n{run.stderr[-4000:]}"
    seen = lines.pop()["seen"]
    assert sum(seen.values()) + len([line for line in lines if line["fault"] == "hang"]) == count
    assert seen.get("read", 0) > count // 20
    assert seen["LogCorrupt"] > count // 4
    return [f"seed {start}, {line}" for line in lines]


def test_damage_to_a_log_is_refused_or_read_as_it_stands() -> None:
    assert _faults(GOLDEN, examples(1000, 50_000)) == []


def test_damage_to_the_logs_of_other_servers(shared_data: Path) -> None:
    folder = shared_data / "binlogs"
    files = [
        folder / f"mysql-bin.{name}" for name in ("checksum-crc32", "checksum-none", "compressed", "aurora-padding")
    ]
    assert _faults(files, examples(400, 30_000)) == []


@pytest.mark.integration
def test_damage_to_a_log_that_the_server_has_just_written(mariadb: EmbeddedMariaDB, tmp_path: Path) -> None:
    with mariadb.connect() as control, control.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("CREATE DATABASE damaged")
        cursor.execute("USE damaged")
        for name in ("mariadb-types", "mariadb-life"):
            for statement in LOGS[name][1]():
                cursor.execute(statement)
        cursor.execute("SHOW MASTER STATUS")
        file = str((cursor.fetchone() or ("",))[0])
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP DATABASE damaged")
    log = tmp_path / "log"
    log.write_bytes((mariadb.folder / "data" / file).read_bytes())
    list(read_file(log))
    assert _faults([log], examples(300, 30_000)) == []


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if open_log(path.read_bytes()).checksum], ids=lambda path: path.name
)
def test_every_bit_of_a_log_with_checksums_counts(path: Path, tmp_path: Path) -> None:
    """No checksum is made right again: each one bit is found, or (the flag of an open file) means nothing."""
    data, place = path.read_bytes(), tmp_path / "bit.000001"
    place.write_bytes(data)
    whole = [str(message) for message in read_file(place)]
    found = 0
    rng = random.Random(seed())
    bits = sorted({*range(8 * 300), *rng.sample(range(8 * len(data)), k=min(examples(250, 3000), 8 * len(data)))})
    for bit in bits[:: max(1, len(bits) // examples(400, 4000))]:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        place.write_bytes(damaged)
        try:
            assert [str(message) for message in read_file(place)] == whole, f"bit {bit} changes what is read"
        except TidemarkError:
            found += 1
    assert found > 300


def test_a_row_packet_that_is_none_is_never_read_beyond_its_end() -> None:
    """The compiled splitter of SELECT's rows has no other bounds than its own."""
    for number in range(examples(3000, 100_000)):
        rng = random.Random(f"{seed()}/{number}")
        payload = b"".join(_value(rng) for _ in range(3))
        packet = len(payload).to_bytes(3, "little") + b"\0" + payload
        data = bytearray(packet * rng.randint(1, 3))
        for _ in range(rng.randint(0, 3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF))
        array = np.frombuffer(bytes(data), np.uint8).copy()
        starts, lengths = np.zeros((3, 4), np.int64), np.zeros((3, 4), np.int64)
        at, row, why = split_rows(array, 0, len(data), 0, starts, lengths)
        assert why in (MORE, FULL, END, LARGE, BAD)
        assert 0 <= at <= len(data)
        ends = starts[:, :row] + np.maximum(lengths[:, :row], 0)
        assert row == 0 or (starts[:, :row].min() >= 4 and ends.max() <= at), f"case {number}: {bytes(data).hex()}"


def _value(rng: random.Random) -> bytes:
    size = rng.choice((0, 1, 5, 250, 251, 300, 70_000 if rng.random() < 0.02 else 7))
    head = (
        bytes([size])
        if size < 251
        else b"\xfc" + size.to_bytes(2, "little")
        if size < 1 << 16
        else b"\xfd" + size.to_bytes(3, "little")
    )
    return b"\xfb" if rng.random() < 0.1 else head + rng.randbytes(size)


def test_the_mutations_themselves_damage() -> None:
    log = Log((FOLDER / "mariadb-life").read_bytes(), checksum=True)
    mutants = [mutate(log, random.Random(number)) for number in range(300)]
    assert len({mutant.data for mutant in mutants}) > 250
    assert 60 < sum(mutant.repaired for mutant in mutants) < 200
