"""`manage.py lake_reader [NAME]`: a database user for those who read the lakehouse of this installation.

It can read the two tables of the catalog, in the catalog's database, and nothing else. Said again, it gets a new
password.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
from django.core.management.base import CommandError, CommandParser
from psycopg2 import errors, sql

from replicator.redaction import redacted
from webapp import environment
from webapp.destinations.lakes import catalog_url
from webapp.installation.catalog_database import TABLES
from webapp.management.command import MetadataCommand

SECONDS = 10  # to the server's first answer
MIGRATE = "Run `manage.py migrate`, which makes it, or correct TIDEMARK_CATALOG_URL."
OTHER_TABLES = """SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p', 'v', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema')
AND NOT (relname = ANY(%s)) AND has_table_privilege(%s, c.oid, 'SELECT') LIMIT 1"""


class Command(MetadataCommand):
    help = "Create a database user that can read the catalog of the lakehouse, and nothing else"

    def add_arguments(self, parser: CommandParser) -> None:
        """A name."""
        super().add_arguments(parser)
        parser.add_argument("name", nargs="?", default="tidemark_reader", help="of the user (default: tidemark_reader)")

    def handle(self, *_: Any, name: str, **__: Any) -> None:
        """Prints the password, once."""
        password, database = secrets.token_urlsafe(24), environment.database(catalog_url())
        with (
            _explained(database),
            closing(psycopg2.connect(catalog_url(), connect_timeout=SECONDS)) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = %s", [name])
            found = cursor.fetchone()
            if found and found[0]:
                message = f"{name} is a user with other privileges. Choose another name."
                raise CommandError(message)
            for statement in statements(name, password, str(database["NAME"]), made=found is None):
                cursor.execute(statement)
            cursor.execute(OTHER_TABLES, [list(TABLES), name])
            if cursor.fetchone():
                message = f"{name} may read other tables, too, so it was left as it was. Choose another name."
                raise CommandError(message)
        self.stdout.write(f"host      {database['HOST'] or 'localhost'}:{database['PORT'] or 5432}")
        self.stdout.write(f"database  {database['NAME']}, catalog lake")
        self.stdout.write(f"user      {name}")
        self.stdout.write(f"password  {password}")


@contextmanager
def _explained(database: Mapping[str, Any]) -> Iterator[None]:
    """CommandError with a remedy for missing tables, a missing privilege, or a database that cannot be reached."""
    name, user = database["NAME"], database["USER"]
    try:
        yield
    except errors.UndefinedTable:
        raise CommandError(f"The database {name} contains no catalog tables. {MIGRATE}") from None
    except errors.InsufficientPrivilege as error:
        message = (
            f"The user {user} may not create the reader in the database {name}: {_first_line(error)}. Let a superuser"
            f' run ALTER ROLE "{user}" CREATEROLE, and let {user} own that database and its tables.'
        )
        raise CommandError(message) from None
    except psycopg2.OperationalError as error:
        if f'database "{name}" does not exist' in str(error):
            raise CommandError(f"The catalog database {name} does not exist. {MIGRATE}") from None
        message = (
            f"The catalog database {name} does not respond: {_first_line(error)}. Check that its server runs,"
            " and the address, user and password of TIDEMARK_CATALOG_URL (or DATABASE_URL)."
        )
        raise CommandError(message) from None


def _first_line(error: psycopg2.Error) -> str:
    return redacted(str(error).strip().partition("\n")[0])


def statements(name: str, password: str, database: str, *, made: bool) -> list[sql.Composed]:
    """made: the user is new."""
    role, place = sql.Identifier(name), sql.Identifier(database)
    first = "CREATE ROLE {} LOGIN PASSWORD {}" if made else "ALTER ROLE {} LOGIN PASSWORD {}"
    tables = sql.SQL(", ").join(map(sql.Identifier, TABLES))
    return [
        sql.SQL(first).format(role, sql.Literal(password)),
        sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on").format(role),
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(place, role),
        sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(role),
        sql.SQL("GRANT SELECT ON {} TO {}").format(tables, role),
    ]
