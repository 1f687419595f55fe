"""Is everything as replication needs it?"""
