"""The server: fakesnow, with additions.

Added is what fakesnow lacks or does differently from Snowflake:

- a definition commits the open transaction;
- a repeated request is executed once;
- the user's stage, and REMOVE;
- temporary tables under any name, and renames into another schema;
- a conflict of transactions is an error of Snowflake's, and an idle transaction is rolled back;
- a password, and PUBLIC as a session's schema;
- NULL among timestamps, numbers of 38 digits, quotation marks and dollar signs in names.

It is not Snowflake: it has no roles, no warehouses, and no locks.  Its tables are in memory.
"""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import re
import shutil
import sys
import tempfile
import time
from collections import OrderedDict
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from testing.servers.snowflake.embedded import EmbeddedSnowflake
from webapp.embedded.ports import LOOPBACK

USER_STAGE = '@"TIDEMARK_USER"."PUBLIC"."FILES"'
REMEMBERED = 1000  # answers, by their requests' ids
IDENTIFIER = r'"(?:[^"]|"")*"'
TABLE = rf"{IDENTIFIER}\.{IDENTIFIER}\.{IDENTIFIER}"
DEFINITION = re.compile(r"\s*(CREATE|ALTER|DROP|TRUNCATE|COMMENT|GRANT)\b", re.IGNORECASE)
TEMPORARY = re.compile(rf"CREATE TEMPORARY TABLE ({TABLE})")
RENAME = re.compile(rf"ALTER TABLE ({TABLE}) RENAME TO ({TABLE})")
CANCEL = re.compile(r"SELECT SYSTEM\$CANCEL_ALL_QUERIES\((\d+)\)")
REMOVE = re.compile(r"REMOVE @~/([\w/]+)/")


class _Front:
    """What comes before fakesnow's own handlers."""

    def __init__(self, server: Any, stage: Any, idle_seconds: float) -> None:
        self.server, self.stage, self.idle_seconds = server, stage, idle_seconds
        self.answers: OrderedDict[str, Any] = OrderedDict()
        self.numbers: dict[int, str] = {}  # tokens by session ids
        self.used: dict[str, float] = {}
        self.open: set[str] = set()  # tokens of sessions with a transaction
        self.aborted: set[str] = set()  # of those whose transaction has idled
        self.temporary: dict[str, list[str]] = {}
        self.turns: dict[str, asyncio.Lock] = {}  # of tokens: a session does one thing at a time, its end included

    async def login(self, request: Any) -> Any:
        from starlette.responses import JSONResponse

        said = (await _body(request))["data"]
        if said["LOGIN_NAME"] != EmbeddedSnowflake.user or (
            "TOKEN" not in said and said.get("PASSWORD") != EmbeddedSnowflake.password
        ):
            answer = {"data": {}, "code": "390100", "message": "Incorrect username or password.", "success": False}
            return JSONResponse(answer)
        answer = json.loads((await self.server.login_request(request)).body)
        number = len(self.numbers) + 1
        self.numbers[number] = answer["data"]["token"]
        answer["data"] |= {"sessionId": number, "masterToken": answer["data"]["token"]}  # without: no end of a session
        with suppress(Exception):  # where the database is there, its schema PUBLIC is the session's, as in Snowflake
            cursor = self.server.sessions[self.numbers[number]].cursor()
            cursor.execute(f'USE SCHEMA "{EmbeddedSnowflake.database}"."PUBLIC"')
        return JSONResponse(answer)

    async def query(self, request: Any) -> Any:
        from starlette.responses import JSONResponse

        name = request.query_params.get("requestId", "")
        if name in self.answers:
            return self.answers[name]
        answer = await self._answered(request)
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:  # fakesnow's own, which a client repeats for minutes
            answer = JSONResponse({"data": {}, "code": "000604", "message": "SQL execution canceled", "success": False})
        self.answers[name] = answer
        if len(self.answers) > REMEMBERED:
            self.answers.popitem(last=False)
        return answer

    async def _answered(self, request: Any) -> Any:
        token = self.server.to_token(request)
        body = await _body(request)
        async with self._turn(token):
            return await self._done(request, token, body)

    def _turn(self, token: str) -> asyncio.Lock:
        return self.turns.setdefault(token, asyncio.Lock())

    async def _done(self, request: Any, token: str, body: Any) -> Any:
        from starlette.concurrency import run_in_threadpool

        now = time.monotonic()
        self.used[token] = now
        await run_in_threadpool(self._roll_back_idle, now)
        if (connection := self.server.sessions.get(token)) is not None:
            body["sqlText"] = await run_in_threadpool(self._prepared, connection, token, body["sqlText"])
        request._body = json.dumps(body).encode()  # noqa: SLF001 - as a client would have sent it
        request.scope["headers"] = [one for one in request.scope["headers"] if one[0] != b"content-encoding"]
        if hasattr(request, "_headers"):
            del request._headers  # noqa: SLF001
        answer = await self.server.query_request(request)
        self.used[token] = time.monotonic()
        return answer

    async def trouble(self, request: Any) -> Any:
        """What a test wants: all sessions end (cut), their statements do (cancel), or nothing is answered (hang)."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        if (what := request.path_params["what"]) == "hang":
            time.sleep(float(request.query_params["seconds"]))  # noqa: ASYNC251 - the whole server
        for token, connection in list(self.server.sessions.items()):
            if what in ("cut", "cancel"):
                connection._duck_conn.interrupt()  # noqa: SLF001
            if what == "cut":
                async with self._turn(token):  # else a statement that has come would be done after the rollback
                    await run_in_threadpool(self._forget, connection, token)
                    self.server.sessions.pop(token, None)
        return JSONResponse({"success": True})

    def _roll_back_idle(self, now: float) -> None:
        for token in list(self.open):
            if now - self.used.get(token, now) > self.idle_seconds:
                self._end_transaction(token, "ROLLBACK")
                self.aborted.add(token)

    def _end_transaction(self, token: str, how: str) -> None:
        self.open.discard(token)
        with suppress(Exception):
            self.server.sessions[token].cursor().execute(how)

    def _prepared(self, connection: Any, token: str, sql: str) -> str:
        """As fakesnow takes it; what it does not take is done here."""
        if sql in ("BEGIN", "ROLLBACK"):
            self.aborted.discard(token)
        if token in self.aborted:
            return "SELECT 1 FROM the_transaction_was_rolled_back"
        if sql == "BEGIN":
            self.open.add(token)
        elif sql in ("COMMIT", "ROLLBACK"):
            self.open.discard(token)
        elif DEFINITION.match(sql) and token in self.open:
            self._end_transaction(token, "COMMIT")
        if found := TEMPORARY.match(sql):
            self.temporary.setdefault(token, []).append(found[1])
            return sql.replace("CREATE TEMPORARY TABLE", "CREATE TABLE", 1)
        if (found := RENAME.fullmatch(sql)) and _schema(found[1]) != _schema(found[2]):
            duck = connection._duck_conn.cursor()  # noqa: SLF001
            duck.execute(f"BEGIN; CREATE TABLE {found[2]} AS FROM {found[1]}; DROP TABLE {found[1]}; COMMIT")
            return "SELECT 'Statement executed successfully.' AS status"
        if found := CANCEL.fullmatch(sql):
            other = self.server.sessions.get(self.numbers.get(int(found[1]), ""))
            if other is not None:
                other._duck_conn.interrupt()  # noqa: SLF001
            return "SELECT 'cancelled' AS status"
        if found := REMOVE.fullmatch(sql):
            shutil.rmtree(Path(self.stage.LOCAL_BUCKET_PATH, "TIDEMARK_USER/PUBLIC/FILES", found[1]), True)  # noqa: FBT003
            return "SELECT 'removed' AS result"
        return f"LIST {USER_STAGE}" if sql.startswith("LIST @~/") else sql.replace("@~/", f"{USER_STAGE}/")

    async def session(self, request: Any) -> Any:
        """At its end, what was open is rolled back, and its temporary tables go."""
        from starlette.concurrency import run_in_threadpool

        token = self.server.to_token(request)
        if request.query_params.get("delete") and (connection := self.server.sessions.get(token)) is not None:
            await run_in_threadpool(self._forget, connection, token)
        return await self.server.session(request)

    def _forget(self, connection: Any, token: str) -> None:
        if token in self.open:
            self._end_transaction(token, "ROLLBACK")
        for table in self.temporary.pop(token, []):
            with suppress(Exception):
                connection.cursor().execute(f"DROP TABLE IF EXISTS {table}")


def _schema(table: str) -> str:
    return str(re.findall(IDENTIFIER, table)[1])


async def _body(request: Any) -> Any:
    body = await request.body()
    if request.headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return json.loads(body)


def _tell_conflicts() -> None:
    """DuckDB's conflict of two transactions is Snowflake's lock that another one has."""
    import duckdb
    from fakesnow.cursor import FakeSnowflakeCursor
    from snowflake.connector.errors import ProgrammingError

    execute = FakeSnowflakeCursor.execute

    def told(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return execute(self, *args, **named)
        except duckdb.InterruptException:
            raise ProgrammingError(msg="SQL execution canceled", errno=604, sqlstate="57014") from None
        except duckdb.TransactionException as error:
            raise ProgrammingError(msg=f"locked: {error}", errno=625, sqlstate="57014") from None
        except duckdb.Error as error:
            raise ProgrammingError(msg=str(error), errno=1003, sqlstate="42000") from None

    FakeSnowflakeCursor.execute = told


def _quote_described() -> None:
    """The table of a COPY may have any name."""
    from fakesnow import copy_into

    def described(table: Any, duck: Any, database: str | None, schema: str | None) -> list[tuple[str, str]]:
        names = (table.catalog or database, table.db or schema, table.name)
        place = ".".join('"' + str(one).replace('"', '""') + '"' for one in names)
        return [(row[0], row[1]) for row in duck.execute(f"DESCRIBE {place}").fetchall()]

    copy_into._describe_table = described  # noqa: SLF001


def _tell_null_times() -> None:
    """NULL in a column of timestamps: fakesnow's answers have none, its client reads 1970-01-01."""
    import pyarrow as pa
    from fakesnow import arrow

    made = arrow.timestamp_to_sf_struct

    def told(times: Any) -> Any:
        one = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
        struct = made(one)
        fields = [struct.type.field(number) for number in range(struct.type.num_fields)]
        return pa.StructArray.from_arrays(struct.flatten(), fields=fields, mask=one.is_null())

    arrow.timestamp_to_sf_struct = told


def _keep_wide_numbers() -> None:
    """NUMBER(38,0) has 38 digits: fakesnow makes a BIGINT of it."""
    from fakesnow.transforms import transforms

    transforms.NUMBER_38_0 = None


def _quote_lengths() -> None:
    """Names of tables and columns come as they are into a statement of fakesnow's own."""
    from fakesnow import info_schema

    noted = info_schema.insert_text_lengths_sql

    def quoted(catalog: str, schema: str, table: str, lengths: list[tuple[str, int]]) -> Any:
        names = (one.replace("'", "''") for one in (catalog, schema, table))
        return noted(*names, [(name.replace("'", "''"), size) for name, size in lengths])

    info_schema.insert_text_lengths_sql = quoted


def _keep_dollars() -> None:
    """A dollar sign within quotation marks begins no session variable; of those Tidemark has none."""
    from fakesnow.variables import Variables

    Variables.inline_variables = lambda _, sql: sql


def main() -> None:
    """Serve on a port."""
    tempfile.tempdir = sys.argv[2]  # its stages
    import uvicorn
    from fakesnow.transforms import stage
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    server = importlib.import_module("fakesnow.server")  # the package has a function of that name
    _tell_conflicts()
    _quote_described()
    _tell_null_times()
    _keep_wide_numbers()
    _quote_lengths()
    _keep_dollars()
    first = server.shared_fs.connect().cursor()
    for sql in (
        f'CREATE DATABASE "{EmbeddedSnowflake.database}"', 'CREATE DATABASE "TIDEMARK_USER"',
        f'CREATE SCHEMA IF NOT EXISTS "{EmbeddedSnowflake.database}"."PUBLIC"',
        'CREATE SCHEMA IF NOT EXISTS "TIDEMARK_USER"."PUBLIC"', 'CREATE STAGE "TIDEMARK_USER"."PUBLIC"."FILES"',
    ):  # fmt: skip
        first.execute(sql)
    server.shared_fs.create_database_on_connect = False
    front = _Front(server, stage, float(sys.argv[3]))
    routes = [
        Route("/session/v1/login-request", front.login, methods=["POST"]),
        Route("/session", front.session, methods=["POST"]),
        Route("/session/heartbeat", front.session, methods=["POST"]),
        Route("/queries/v1/query-request", front.query, methods=["POST"]),
        Route("/queries/v1/abort-request", lambda _: JSONResponse({"success": True}), methods=["POST"]),
        Route("/fs_bucket/{path:path}", server.bucket_upload, methods=["PUT"]),
        Route("/trouble/{what}", front.trouble, methods=["POST"]),
        Route("/monitoring/queries/{sfqid}", server.monitoring_query, methods=["GET"]),
    ]
    uvicorn.run(Starlette(routes=routes), host=LOOPBACK, port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
