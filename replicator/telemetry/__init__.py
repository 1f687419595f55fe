"""What the engine's facts mean to people and to other programs: how late changes were, whether objectives were met,
where a field came from.
"""
