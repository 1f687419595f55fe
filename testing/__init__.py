"""What puts the product to the proof: a random workload, and servers that only tests use."""
