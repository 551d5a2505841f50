"""Copying rows that exist already while they change: chunks, their ledger and their merges."""
