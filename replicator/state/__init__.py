"""Durable state: the journal, leases and snapshot chunks, as ports.

The control plane implements them on its database.
"""
