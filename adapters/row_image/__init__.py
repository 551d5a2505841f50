"""Rows as images of the source's bytes, written to a target without a Python value in between."""
