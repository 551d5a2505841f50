"""Small scopes, exhaustively: every history of a few changes, every way in which it can be planned, sent, committed
and cut by a crash, through the engine's own machines.

    python -m simulations.explore [--size small|full]     explore; a table of what was seen
    python -m simulations.explore --without RULE          break a rule; the shortest counter-example as a transcript

Most mistakes in an ordering protocol show with a handful of events.  Within its scope a search like this says not that
none was met, but that there is none.
"""
