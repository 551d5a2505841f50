"""Other replicators on the same work, run beside ours."""
