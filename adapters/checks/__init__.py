"""Checks whether a feed can run: its source, its tables and its log are looked at; nothing is written."""
