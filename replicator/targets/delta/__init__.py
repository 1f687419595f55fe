"""Tables of Delta Lake, written by Arrow and delta-rs: no JVM."""
