"""The workload's Oracle: types, literals, keys, statements, sessions and the driver."""

from testing.workload.oracle.grammar import grammar

__all__ = ["grammar"]
