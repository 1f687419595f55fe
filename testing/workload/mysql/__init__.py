"""The workload's MySQL and MariaDB: types, literals, keys, statements, sessions and the driver."""

from testing.workload.mysql.grammar import grammar

__all__ = ["grammar"]
