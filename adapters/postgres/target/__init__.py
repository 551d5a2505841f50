"""PostgreSQL as a target: batches, fencing, bookkeeping, chunks."""
