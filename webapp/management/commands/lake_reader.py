"""`manage.py lake_reader [NAME]`: a database user for those who read the lakehouse of this installation.

It can read the two tables of the catalog and nothing else of the database, which also holds users and encrypted
secrets. Said again, it gets a new password.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction
from django.db.utils import ProgrammingError
from psycopg2 import sql

from webapp import environment
from webapp.management.command import MetadataCommand

TABLES = ("iceberg_tables", "iceberg_namespace_properties")


class Command(MetadataCommand):
    help = "Create a database user that can read the catalog of the lakehouse, and nothing else"

    def add_arguments(self, parser: CommandParser) -> None:
        """A name."""
        super().add_arguments(parser)
        parser.add_argument("name", nargs="?", default="tidemark_reader", help="of the user (default: tidemark_reader)")

    def handle(self, *_: Any, name: str, **__: Any) -> None:
        """Prints the password, once."""
        password = secrets.token_urlsafe(24)
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(
                    "SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = %s", [name]
                )
                found = cursor.fetchone()
                if found and found[0]:
                    message = f"{name} is a user with other privileges. Choose another name."
                    raise CommandError(message)
                for statement in statements(name, password, str(connection.settings_dict["NAME"]), made=found is None):
                    cursor.execute(statement)
                cursor.execute("SELECT has_table_privilege(%s, 'auth_user', 'SELECT')", [name])
                if cursor.fetchone() != (False,):
                    message = f"{name} may read other tables, too, so it was left as it was. Choose another name."
                    raise CommandError(message)
        except ProgrammingError as error:
            message = f"The user of DATABASE_URL may not create users: {error}"
            raise CommandError(message.strip()) from None
        database = environment.database(settings.DATABASE_URL)
        self.stdout.write(f"host      {database['HOST'] or 'localhost'}:{database['PORT'] or 5432}")
        self.stdout.write(f"database  {connection.settings_dict['NAME']}, catalog lake")
        self.stdout.write(f"user      {name}")
        self.stdout.write(f"password  {password}")


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
