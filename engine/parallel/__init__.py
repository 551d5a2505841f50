"""Which changes may run side by side: lock keys, the lock table, lanes and segments."""
