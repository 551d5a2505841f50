"""A feed of many workers: the coordinator, the partitions and how far each group is."""
