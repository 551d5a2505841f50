"""Parts that the readers of all sources' logs share."""
