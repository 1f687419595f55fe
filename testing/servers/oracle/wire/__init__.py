"""Oracle's network protocol, as far as the thin driver needs it: packets, log-in, calls, values."""
