"""What the server does: SQL over Postgres, a data dictionary, system change numbers, redo, LogMiner."""
