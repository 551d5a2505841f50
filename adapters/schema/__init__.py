"""Tables of a source and of a target: their types, and whether one holds what the other does."""
