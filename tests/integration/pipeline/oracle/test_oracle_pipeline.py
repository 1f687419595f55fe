"""A replicator of Oracle end to end: snapshot, log, statements, and what verification says of the copy."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.servers.oracle.server.embedded import EmbeddedOracle
from tests.integration.pipeline.oracle.oracle_lab import OracleLab
from webapp.console.definitions.apply import apply

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:No directory at"),
]
EVERY = """CREATE TABLE @."t" ("id" NUMBER(9) PRIMARY KEY, "n" NUMBER, "m" NUMBER(20,6), "b" NUMBER(35),
    "neg" NUMBER(5,-2), "small" NUMBER(2,4), "i" INTEGER,
    "f" BINARY_DOUBLE, "v" VARCHAR2(50), "u" NVARCHAR2(50), "c" CHAR(5), "d" DATE, "at" TIMESTAMP(6),
    "z" TIMESTAMP(6) WITH TIME ZONE,
    "fine" TIMESTAMP(9), "span" INTERVAL DAY TO SECOND, "months" INTERVAL YEAR TO MONTH, "r" RAW(16),
    "l" TIMESTAMP(6) WITH LOCAL TIME ZONE, "ll" TIMESTAMP(9) WITH LOCAL TIME ZONE, "zz" TIMESTAMP(9) WITH TIME ZONE,
    "cl" CLOB, "nl" NCLOB, "bl" BLOB, "x" XMLTYPE)"""
ROW = """INSERT INTO @."t" VALUES ({id}, {id}.5, -{id}.000001, 9999999999999999999999999999999999{id},
    {id}234, 0.00{id}, 9999999999999999999999999999999999999{id}, {id}.25,
    'it''s {id}', N'\u00e9 {id}', 'ab',
    TO_DATE('2026-11-27 10:20:30', 'YYYY-MM-DD HH24:MI:SS'),
    TO_TIMESTAMP('2026-11-27 10:20:30.123456', 'YYYY-MM-DD HH24:MI:SS.FF6'),
    TO_TIMESTAMP_TZ('2026-11-27 10:20:30.5 +05:45', 'YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM'),
    TO_TIMESTAMP('2026-11-27 10:20:30.123456789', 'YYYY-MM-DD HH24:MI:SS.FF9'),
    TO_DSINTERVAL('+03 04:05:06.700000'), TO_YMINTERVAL('+01-06'), HEXTORAW('00ff'),
    {zoned}, {zoned}, {zoned}, RPAD('{id}', 3000, 'clob '), EMPTY_CLOB(), HEXTORAW('0{id}'),
    XMLTYPE('<r> <n>{id}</n> </r>'))"""
ZONED = "TO_TIMESTAMP_TZ('2026-11-27 10:20:30.123456 -03:00', 'YYYY-MM-DD HH24:MI:SS.FF6 TZH:TZM')"


@pytest.fixture
def lab(oracle_source: EmbeddedOracle, transactional_db: Any) -> Iterator[OracleLab]:
    one = OracleLab(oracle_source, f"lab_{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


def test_every_type_and_statement_reaches_a_delta_table(lab: OracleLab, tmp_path: Path) -> None:
    lab.execute(
        EVERY, *(ROW.format(id=number, zoned=ZONED) for number in range(1, 4)), 'INSERT INTO @."t" ("id") VALUES (4)'
    )
    lab.execute('CREATE TABLE @."keyless" ("v" NUMBER(5))', *['INSERT INTO @."keyless" VALUES (7)'] * 3)
    connection = lab.connection(lob_columns="reselect").name
    apply(
        f"""
        destinations: [{{name: folder, kind: delta, config: {{store: file, location: "file://{tmp_path}/delta"}}}}]
        replicators:
          - {{name: {lab.name}, connection: {connection}, destination: folder, tables: ["{lab.database}.*"],
             state: running}}
    """,
        {},
    )
    lab.run()
    assert lab.assert_equal(2) == 7
    with lab.transaction() as cursor:
        for statement in (
            ROW.format(id=5, zoned=ZONED), 'UPDATE @."t" SET "v" = \'x\', "d" = NULL WHERE "id" = 2',
            'DELETE FROM @."t" WHERE "id" = 1', 'UPDATE @."t" SET "cl" = NULL, "nl" = N\'\u00e9\' WHERE "id" = 3',
            'UPDATE @."t" SET "bl" = EMPTY_BLOB() WHERE "id" = 2', 'UPDATE @."t" SET "x" = NULL WHERE "id" = 3',
            'UPDATE @."t" SET "x" = XMLTYPE(\'<s/>\') WHERE "id" = 4',
            "SAVEPOINT s", 'DELETE FROM @."t"', "ROLLBACK TO SAVEPOINT s", 'UPDATE @."t" SET "id" = 9 WHERE "id" = 3',
            'DELETE FROM @."keyless" WHERE ROWNUM = 1',
        ):  # fmt: skip
            cursor.execute(lab.spelled(statement))
    lab.run()
    assert lab.assert_equal(2) == 6
    lab.execute(
        'INSERT INTO @."t" ("id") VALUES (20)', 'ALTER TABLE @."t" ADD "w" NUMBER(5) DEFAULT 3',
        'INSERT INTO @."t" ("id", "w") VALUES (21, 4)', 'ALTER TABLE @."t" DROP COLUMN "n"',
        'TRUNCATE TABLE @."keyless"',
        'INSERT INTO @."keyless" VALUES (8)',
    )  # fmt: skip
    lab.run()
    assert lab.assert_equal(2) == 7
