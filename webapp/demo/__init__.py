"""The sample sources of `make demo`: the same small shop on two servers, each with live traffic."""
