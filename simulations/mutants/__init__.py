"""The mutation check: bugs planted in the engine one at a time, each of which the simulation must notice.

A simulation that never fails proves little until one knows what it would notice.  So each mutant (`mutant`) is a small
change (`patch`) of one function or several (`functions`), planted in a process of its own without touching the disk
(`planting`), in which worlds are run by seed until one fails (`hunt`); `check` hunts them all.  How many seeds a mutant
lives says how well the worlds reach the place; one that outlives the limit is a hole in the worlds, or in what they
check.

    python -m tidelock.simulations.mutants [--jobs 2] [--limit 20000] [NAME …]

Among them stands every counter-example of the design that concerns what exists: rows 1 to 16 and 18 of their table.
What an adapter's SQL must keep (3, 11, 12, 14, 18, of 6 the checkpoint) is broken in the simulated target, what a
reader must keep (5) in the simulated copier.  Of 2 the half about the chunk ledger cannot be planted: what is left of a
change is what the locks are asked for.

Left out, for now: 17 needs a source with deferrable unique keys (PostgreSQL), which cannot be captured yet.

A mutant has a story: a rule of the design forgotten, an edge case, a bug that others have had.  What a generic tool
does to an operator or a number is none.

A mutant that is only slower, and never wrong, is none: coarser keys, locks held too long, NULL taken for a value like
any other in a lock, a lane chosen badly.
"""
