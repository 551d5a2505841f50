"""Cost of two ways beside one: sites' names, an arbiter, the bytes of marks, and both directions at once."""
