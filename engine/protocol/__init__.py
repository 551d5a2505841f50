"""What happens to a machine and what it wants done: events in, effects out, as data."""
