"""Protocols for what the engine needs of the world: the log, the sink, the copier, a target to look at."""
