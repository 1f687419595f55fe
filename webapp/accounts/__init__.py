"""Users, API tokens, one-time logins."""
