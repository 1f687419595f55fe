"""Values only: no I/O anywhere below this package."""
