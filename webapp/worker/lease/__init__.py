"""Who may work."""
