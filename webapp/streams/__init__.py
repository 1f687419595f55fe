"""Pull streams: what they carry, who reads them, and how far."""
