"""What the readers of all sources' logs share."""
