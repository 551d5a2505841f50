"""Hive as a target: Spark merges collected changes into its tables (docs/decisions/2026-11-22-hive.md)."""
