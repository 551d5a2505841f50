"""A feed's YAML: read, checked and turned into a `Feed`."""
