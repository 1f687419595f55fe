"""The sample source of `make demo`: a small shop with live traffic."""
