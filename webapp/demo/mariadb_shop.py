"""The shop on MariaDB."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql

from webapp.demo.sample_rows import Rows
from webapp.demo.shop import DATABASE, Shop
from webapp.embedded.mariadb import EmbeddedMariaDB


class MariaDBShop(Shop):
    """One database."""

    source, product, name, kind = "mariadb", "MariaDB", "demo shop", "mysql"
    error = pymysql.MySQLError
    schema = (
        """CREATE TABLE customers (
          id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, email VARCHAR(120) NOT NULL UNIQUE,
          name VARCHAR(120) NOT NULL, loyalty ENUM('none', 'silver', 'gold') NOT NULL DEFAULT 'none', born DATE NULL,
          notes TEXT NULL, created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))""",
        """CREATE TABLE products (
          sku CHAR(10) PRIMARY KEY, title VARCHAR(200) NOT NULL, price DECIMAL(10, 2) NOT NULL, attributes JSON NULL,
          picture VARBINARY(64) NULL, active BOOLEAN NOT NULL DEFAULT TRUE)""",
        """CREATE TABLE inventory (
          warehouse SMALLINT UNSIGNED NOT NULL, sku CHAR(10) NOT NULL, on_hand INT NOT NULL,
          PRIMARY KEY (warehouse, sku))""",
        """CREATE TABLE orders (
          id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, customer_id BIGINT UNSIGNED NOT NULL,
          state VARCHAR(12) NOT NULL, total DECIMAL(12, 2) NOT NULL, placed_at DATETIME(6) NOT NULL,
          KEY (customer_id))""",
        """CREATE TABLE order_items (
          order_id BIGINT UNSIGNED NOT NULL, line SMALLINT UNSIGNED NOT NULL, sku CHAR(10) NOT NULL,
          quantity INT NOT NULL, price DECIMAL(10, 2) NOT NULL, PRIMARY KEY (order_id, line))""",
        "CREATE TABLE audit_log (at DATETIME(3) NOT NULL, actor VARCHAR(60) NOT NULL, what VARCHAR(200) NOT NULL)",
    )

    def _server(self, folder: Path, port: int) -> EmbeddedMariaDB:
        return EmbeddedMariaDB(folder, port)

    @property
    def _address(self) -> Mapping[str, Any]:
        assert isinstance(self.server, EmbeddedMariaDB)
        return self.server.address

    @property
    def config(self) -> dict[str, Any]:
        return {**self._address, "tls": "disabled"}

    def connect(self) -> Any:
        """DATETIME has no zone: UTC is agreed upon."""
        return pymysql.connect(
            **self._address, database=DATABASE, charset="utf8mb4", init_command="SET time_zone = '+00:00'"
        )

    def create(self) -> None:
        with closing(pymysql.connect(**self._address)) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")

    def insert(self, cursor: Any, table: str, columns: str, rows: Rows) -> None:
        """The driver joins them."""
        marks = ", ".join(["%s"] * (columns.count(",") + 1))
        cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(rows))
