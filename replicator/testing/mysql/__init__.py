"""The workload's MySQL and MariaDB: types, literals, keys, statements, sessions and the driver."""

from replicator.testing.mysql.grammar import grammar

__all__ = ["grammar"]
