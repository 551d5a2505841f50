"""Worlds of two to four sites: databases that are all written to, and feeds between them."""
