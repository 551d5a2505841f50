"""Chaos on real processes: steady work, and one blow after another at the feed, its servers and the wires between."""
