"""Rules of two-way replication: what a site had seen, what goes back to it, who wins.

Each file is one rule, as a function of data or a small machine.  Feeds run with them; an exhaustive model
(`tidelock.simulations.two_way`) drives these very files.  What they promise, and the shortest history against each
weaker form: `docs/explanation/conflicts.md`, whose histories are cited here by number.
"""
