"""Batches on their way to the target: merged, sent, retried, split, parked and committed."""
