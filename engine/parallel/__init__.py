"""Order of changes that run side by side: lock keys, the lock table, lanes and segments."""
