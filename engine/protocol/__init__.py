"""Vocabulary of the machines: events in, effects out, as data."""
