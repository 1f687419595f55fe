"""One machine: its servers, keys and first start."""
