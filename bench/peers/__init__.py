"""Other replicators on the same work, run beside ours: a module each; `roster` lists them, `command` runs them."""
