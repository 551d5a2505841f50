"""Chooses the implementation for each database: one line each."""
