"""Reconciliation: checks whether both ends hold the same rows.  Spark reads, this compares."""
