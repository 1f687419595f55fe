"""The fold: the newest change of each key, multisets, history; in Arrow, for every target."""
