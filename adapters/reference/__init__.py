"""Writes pages of `docs/reference/` from the code that they are about."""
