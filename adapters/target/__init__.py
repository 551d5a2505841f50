"""The parts that all database targets have in common."""
