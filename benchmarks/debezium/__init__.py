"""Debezium Engine, the peer: a small Java program, and the jars that it wants."""
