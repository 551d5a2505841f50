"""From a source transaction to the ordered log: mapping, row filters and loop control."""
