"""The Kafka target: every change of a table, in sequence order, in one topic; README.md is the guide."""
