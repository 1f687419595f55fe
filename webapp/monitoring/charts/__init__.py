"""Figures over time, and how they are drawn."""
