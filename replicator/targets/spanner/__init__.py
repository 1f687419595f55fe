"""The Spanner target: mutations in read-write transactions with the position, definitions step by step (ADR 51)."""
