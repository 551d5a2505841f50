"""Worlds in which tables are altered, renamed, dropped and made anew while their rows flow."""
