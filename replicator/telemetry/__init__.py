"""What the engine's facts mean to people and to other programs: how late changes were, what was promised, where a field
came from.
"""
