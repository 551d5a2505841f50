"""Measurements as things grow: tables, row width, backlog, lanes; and what happens when the target stands still."""
