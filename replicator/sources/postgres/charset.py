"""The log of a database whose encoding allows bytes that are not characters, such as 0x81 in WIN1252.

The server's sender cannot convert such a text to UTF-8 and ends the stream at every attempt.  Texts are then requested
as they are stored, and decoded here.  A text that cannot be decoded is an error of its table only (invariant 13).
"""

from __future__ import annotations

import codecs
from contextlib import closing
from dataclasses import dataclass

import psycopg2
import pyarrow as pa

from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import SESSION_OPTIONS, connect, literal, read_rows, translated

_ASCII, _BYTES = 0x80, 0x100
_NONE = "\ufffe"  # no character, to codecs


@dataclass(frozen=True)
class Charset:
    """An encoding of one byte for each character; `table` has the characters by their bytes."""

    name: str
    table: str

    @property
    def options(self) -> str:
        """Of a connection on which nothing is converted."""
        return SESSION_OPTIONS.replace("client_encoding=UTF8", f"client_encoding={self.name}")

    def name_of(self, stored: bytes) -> str:
        """As `messages` decodes names."""
        return codecs.charmap_decode(stored, "replace", self.table)[0]

    def strings(self, values: pa.Array) -> pa.Array:
        """Raises pa.ArrowInvalid."""
        try:
            found = [
                None if one is None else codecs.charmap_decode(one, "strict", self.table)[0]
                for one in values.to_pylist()
            ]
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(str(error)) from None
        return pa.array(found, pa.string())


def read_charset(config: PostgresConfig) -> Charset | None:
    """As the server itself converts each byte; None for an encoding whose characters may have several."""
    with closing(connect(config)) as connection:
        asked = (
            "SELECT d.encoding, pg_catalog.pg_encoding_to_char(d.encoding)::text FROM pg_catalog.pg_database d WHERE"
            " d.datname = pg_catalog.current_database()"
        )
        [[number, name]] = read_rows(connection, asked, config.where)
        [[size]] = read_rows(connection, f"SELECT pg_catalog.pg_encoding_max_length({number})", config.where)
        if size != 1 or name == "SQL_ASCII":
            return None
        table = "".join(map(chr, range(_ASCII)))
        with translated(config.where), connection.cursor() as cursor:
            for byte in range(_ASCII, _BYTES):
                stored = f"pg_catalog.decode('{byte:02x}', 'hex')"
                try:
                    cursor.execute(
                        f"SELECT pg_catalog.encode(pg_catalog.convert({stored}, {literal(name)}, 'UTF8'), 'hex')"
                    )
                    table += bytes.fromhex(cursor.fetchall()[0][0]).decode()
                except psycopg2.errors.UntranslatableCharacter:
                    table += _NONE
        return Charset(name, table)
