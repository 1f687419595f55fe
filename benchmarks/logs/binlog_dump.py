"""The floor under MySQL's log: its bytes, through the replication protocol, thrown away as they come.

`python -m benchmarks.logs.binlog_dump`, see `log_reading.LogReader`. Orders (JSON): `address` (of pymysql.connect),
`file`, `position`, `bytes` (of the log from there to its end) and `rows` in them. It looks at nothing but their
number, and at the packet by which the server says that the log ends.
"""

from __future__ import annotations

import json
import struct
import sys

import pymysql

COM_BINLOG_DUMP, NON_BLOCKING = 0x12, 1
SERVER_ID = 4_000_000_001
END = b"\5\0\0"  # a packet of five bytes
EOF, END_SIZE = 0xFE, 9
RECEIVE = 1 << 20


def main() -> None:
    """SystemExit where the log is shorter than it should be."""
    orders = json.loads(sys.stdin.readline())
    connection = pymysql.connect(**orders["address"], read_timeout=60)
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum, @mariadb_slave_capability = 4")
    head = struct.pack("<BIHI", COM_BINLOG_DUMP, orders["position"], NON_BLOCKING, SERVER_ID)
    command = head + orders["file"].encode()
    print(0, flush=True)
    connection._sock.sendall(struct.pack("<I", len(command)) + command)  # noqa: SLF001 - pymysql has no other way in
    received = discard(connection)
    if received < orders["bytes"]:
        sys.exit(f"The log has {orders['bytes']} bytes, and {received} came.")
    print(orders["rows"], flush=True)
    sys.stdin.read()


def discard(connection: pymysql.Connection) -> int:
    """Bytes up to the end of the log, those of the protocol included."""
    received, last = 0, b""
    buffer = bytearray(RECEIVE)
    view = memoryview(buffer)
    while not (last.startswith(END) and last[4] == EOF):
        size = connection._sock.recv_into(buffer)  # noqa: SLF001
        if not size:
            sys.exit("The server closed the connection.")
        received += size
        last = (last + bytes(view[max(0, size - END_SIZE) : size]))[-END_SIZE:]
    return received


if __name__ == "__main__":
    main()
