"""The redo log and LogMiner."""
