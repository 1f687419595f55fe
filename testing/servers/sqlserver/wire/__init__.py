"""Tabular Data Stream 7.4, the server's side ([MS-TDS])."""
