"""MySQL and MariaDB as a target: batches, fencing, bookkeeping, chunks."""
