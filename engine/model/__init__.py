"""Plain data that every room shares: records, tables, indexes, positions, errors and options."""
