"""Reconciliation: do both ends hold the same rows?  Spark reads, this compares."""
