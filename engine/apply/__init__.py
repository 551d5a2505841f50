"""The apply machine: one partition of the ordered log, applied in parallel and exactly."""
