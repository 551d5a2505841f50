"""Hive as a target: changes are gathered and merged into its tables by Spark (docs/decisions/2026-11-22-hive.md)."""
