"""What of a table leaves the source's readers: everything behind them sees masked values only."""
