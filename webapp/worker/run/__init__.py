"""Slices of work and how they are wired."""
