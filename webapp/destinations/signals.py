"""Signals about destinations, for the apps that use them."""

from __future__ import annotations

from django.dispatch import Signal

changed = Signal()  # destination, summary, user: its settings are other ones
works = Signal()  # destination, why, user: it was put right, or tested well
