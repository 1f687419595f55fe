"""Benchmarks on embedded servers, each against a reference in the same run: `python -m benchmarks --help`."""
