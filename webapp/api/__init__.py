"""The REST API: its form and its addresses."""
