"""The redo log as transactions: files, LogMiner sessions, order, schemas."""
