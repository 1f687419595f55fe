"""Requests and responses, independent of any one page."""
