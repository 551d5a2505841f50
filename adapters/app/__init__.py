"""What the command runs: a feed in one process, `check`, `init`, `resync` and `repair`."""
