"""The loops: capture, snapshot, apply.  They meet only through the journal and the source's log."""
