"""Two-way replication in small scopes, exhaustively: every order of writes, marks, echoes, restarts and losses.

    python -m tidelock.simulations.two_way [--scope small|full]    explore; a line a scope
    python -m tidelock.simulations.two_way --without RULE          break a rule; the shortest history that goes wrong

The worlds drive the leaves of `tidelock.engine.two_way` themselves.  `hub` is an arbiter and its spokes, `hold` the
same where older rows wait, `look_up` where rows are read in place of the log's images (no feed does either), `tree`
sites of which each is the arbiter of those below it, `stamps` equal sites that keep the later row, `permits` the two
feeds of a pair.  What the rules are for, with the shortest histories as tables: `docs/explanation/conflicts.md`.
"""
