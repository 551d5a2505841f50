"""What two ways cost beside one: sites' names, an arbiter, the bytes of marks, and both directions at once."""
