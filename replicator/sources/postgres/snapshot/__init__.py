"""COPY to columns of values."""
