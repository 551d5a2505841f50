"""Bulk work on Spark: reading whole tables at both ends, comparing them."""
