"""Deterministic streams of row changes: the same seed makes the same transactions on every server."""
