"""The workload's Postgres 13 to 18: types, literals, keys, statements, sessions and the driver."""

from testing.workload.postgres.grammar import grammar

__all__ = ["grammar"]
