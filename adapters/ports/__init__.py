"""What the engine needs of the world, as protocols: the log, the sink, the copier, a target to look at."""
