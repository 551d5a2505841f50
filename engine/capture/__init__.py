"""Capture: source transactions become the ordered log, through mapping, row filters and loop control."""
