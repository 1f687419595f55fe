"""Deletion vectors: readable by pyiceberg, and damaged ones are refused."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from replicator.targets.iceberg.table.deletion_vectors import decode, encode, puffin


@pytest.mark.parametrize("seed", range(20))
def test_a_file_of_vectors_is_read_back_by_us_and_by_pyiceberg(seed: int) -> None:
    random = Random(seed)
    most = random.choice((10, 70_000, 2**31 + 5, 2**34))
    vectors = {
        f"file:/a b/\N{SNOWMAN}{n}.parquet": np.array(
            sorted({random.randrange(most) for _ in range(random.choice((1, 9, 3000)))}), np.int64
        )
        for n in range(random.randint(1, 4))
    }
    vectors["file:/all.parquet"] = np.arange(random.randint(1, 200_000))
    content, places = puffin(vectors)
    for name, (first, length) in places.items():
        assert (decode(content[first : first + length]) == vectors[name]).all()
    if most < 2**32:  # beyond, pyiceberg reads none
        theirs = deletion_vectors_from_puffin_file(PuffinFile(content))
        found = {one.referenced_data_file: one.to_vector().to_pylist() for one in theirs}
        assert found == {name: rows.tolist() for name, rows in vectors.items()}


@pytest.mark.parametrize("at", [0, 5, 9, 20, -2])
def test_a_damaged_vector_is_told(at: int) -> None:
    blob = bytearray(encode(np.array([1, 5, 70_000], np.int64)))
    blob[at] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        decode(bytes(blob))
    for cut in (b"", bytes(blob[:10]), bytes(blob[:-1])):
        with pytest.raises(ValueError, match="damaged"):
            decode(cut)
