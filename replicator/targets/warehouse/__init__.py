"""The core of all targets that take SQL: a dialect only says how (ADR 47)."""
