"""Signals about connections, for the apps that use them."""

from __future__ import annotations

from django.dispatch import Signal

changed = Signal()  # connection, summary, user: its settings are other ones
works = Signal()  # connection, why, user: it was put right, or tested well
tables_asked = Signal()  # connection: its receiver answers with the TableSet that is read from it, or None
