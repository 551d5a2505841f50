"""The tables that a feed keeps at its target, and a run's lease on the feed."""
