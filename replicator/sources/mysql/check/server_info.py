"""What the connection test knows of a server, asked once."""

from __future__ import annotations

from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, quoted, server_is_mariadb
from replicator.sources.mysql.names import names_of
from replicator.sources.mysql.snapshot.result_stream import read_rows


class Server:
    """A connection with the server's global variables (names and values in lower case)."""

    def __init__(self, config: MySqlConfig, connection: Connection) -> None:
        self.config = config
        self.connection = connection
        self.where = f"{config.host}:{config.port}"
        self.mariadb = server_is_mariadb(connection)
        self.names = names_of(connection)
        self.variables = {str(name).lower(): str(value) for name, value in self.rows("SHOW GLOBAL VARIABLES")}

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Raises the errors of `connection.translated`."""
        return read_rows(self.connection, sql, self.where)

    def value(self, name: str) -> str:
        """A global variable in lower case; empty where the server has none of that name."""
        return self.variables.get(name, "").lower()

    @property
    def version(self) -> tuple[int, ...]:
        """The first two or three numbers of the version text."""
        numbers = self.variables.get("version", "").split("-")[0].split(".")
        return tuple(int(number) for number in numbers[:3] if number.isdigit())

    @property
    def product(self) -> str:
        return "MariaDB" if self.mariadb else "MySQL"

    @property
    def account(self) -> str:
        """The account that the server has logged us in as, quoted for GRANT."""
        user, _, host = str(self.rows("SELECT CURRENT_USER()")[0][0]).rpartition("@")
        return f"{quoted(user)}@{quoted(host)}"

    def grants(self) -> list[str]:
        """SHOW GRANTS with the roles in force."""
        statement = "SHOW GRANTS FOR CURRENT_USER()"
        roles = str(self.rows("SELECT CURRENT_ROLE()")[0][0] or "NONE")
        if self.mariadb:
            more = [] if roles == "NONE" else self.rows(f"SHOW GRANTS FOR {quoted(roles)}")
            return [str(row[0]) for row in self.rows(statement) + more]
        return [str(row[0]) for row in self.rows(statement if roles == "NONE" else f"{statement} USING {roles}")]
