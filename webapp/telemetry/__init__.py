"""What Tidemark tells other programs: Prometheus figures, probes, OpenLineage events."""
