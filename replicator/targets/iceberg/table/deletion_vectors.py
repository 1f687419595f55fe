"""Deletion vectors, and the Puffin files that they lie in (Iceberg specification, "Deletion vectors", "Puffin")."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

ROW_POSITION_ID = 2147483645  # reserved by the Iceberg specification
_VECTOR, _PUFFIN = b"\xd1\xd3\x39\x64", b"PFA1"
_NO_FLAGS = bytes(4)
_ENDS = 12  # bytes of a vector's blob besides the bitmap: its length, what it is, its checksum
Places = npt.NDArray[np.int64]


def encode(rows: Places) -> bytes:
    """A blob: the rows (any order) as a 64-bit Roaring bitmap in the portable form."""
    bitmap = BitMap64(rows.astype(np.uint64))
    bitmap.run_optimize()
    body = _VECTOR + bitmap.serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def decode(blob: bytes) -> Places:
    """Decode a vector: the inverse, ascending.  ValueError where the bytes are damaged or not a vector."""
    body = blob[4:-4]
    whole = len(blob) > _ENDS and int.from_bytes(blob[:4], "big") == len(body) and body.startswith(_VECTOR)
    if not whole or zlib.crc32(body) != int.from_bytes(blob[-4:], "big"):
        message = "The deletion vector is damaged: its length or checksum is wrong."
        raise ValueError(message)
    return np.array(BitMap64.deserialize(body[len(_VECTOR) :]).to_array(), np.int64)


def puffin(vectors: Mapping[str, Places]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """A file of the vectors of these data files, and the first byte and length of each one's blob."""
    content, places, blobs = bytearray(_PUFFIN), {}, []
    for data_file, rows in vectors.items():
        blob = encode(rows)
        places[data_file] = (len(content), len(blob))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [ROW_POSITION_ID],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": data_file, "cardinality": str(len(rows))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "Tidemark"}}).encode()
    content += _PUFFIN + footer + len(footer).to_bytes(4, "little") + _NO_FLAGS + _PUFFIN
    return bytes(content), places
