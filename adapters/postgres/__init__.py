"""PostgreSQL: its catalogue, its errors, and writing its tables."""
