"""Pairs, stars and trees of sites: their feeds begun, run, shown and taken away together."""
