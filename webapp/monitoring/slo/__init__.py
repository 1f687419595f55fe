"""Objectives: attainment, budgets, lag."""
