"""Servers from packages, for one machine: no root, no installer, nothing left running.  Knows no Django."""
