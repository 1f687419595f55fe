"""Pages of replicators: fleet, wizard, detail, actions."""
