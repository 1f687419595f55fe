"""The data dictionary and the dynamic performance views."""
