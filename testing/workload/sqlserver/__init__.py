"""Histories for SQL Server."""

from testing.workload.sqlserver.grammar import grammar

__all__ = ["grammar"]
