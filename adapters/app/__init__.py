"""Runs what the commands ask for: a feed in one process, `check`, `init`, `resync` and `repair`."""
