"""Small scopes, exhaustively: every history of a few changes, every way in which it can be planned, sent, committed
and cut by a crash, through the engine's own machines.

    python -m tidelock.simulations.explore [--size small|full]     explore; a table of what was seen python -m
    tidelock.simulations.explore --without RULE          break a rule; the shortest counter-example as a transcript

Most mistakes in an ordering protocol show with a handful of events.  Within its scope a search like this says not that
none was met, but that there is none.  `locks` drives the lock table and all around it, `fence` whole apply machines
around one target, `chunks` the ledger of a table that is copied; `rules`, `fence_rules` and `chunk_rules` break one
rule at a time, and each has a counter-example.

Seen at the size of `make test`, all clean (seconds of one core):

| model, scope            | changes | histories |  states |   moves | seconds |
|-------------------------|---------|-----------|---------|---------|---------|
| locks, one unique value |       3 |       961 |  20,735 |  49,213 |       2 |
| locks, one unique key   |       3 |     2,132 |  50,696 | 119,932 |       4 |
| locks, three rows       |       4 |       568 |  20,370 |  57,422 |       3 |
| locks, two unique keys  |       2 |       889 |   8,128 |  14,876 |       1 |
| locks, two parents      |       2 |       528 |   4,862 |   9,090 |       1 |
| locks, two children     |       3 |       541 |  12,518 |  30,684 |       1 |
| fence, one table        |       3 |        11 |  90,371 | 156,913 |       6 |
| chunks, two chunks      |       2 |        25 |  50,631 | 143,929 |       7 |

The same at `--size full` (`make proof`), all clean:

| model, scope            | changes | histories |    states |     moves | seconds |
|-------------------------|---------|-----------|-----------|-----------|---------|
| locks, one unique value |       4 |     5,694 |   282,323 |   817,428 |      36 |
| locks, one unique key   |       4 |    17,155 |   938,194 | 2,706,988 |     118 |
| locks, three rows       |       5 |     2,131 |   155,789 |   521,356 |      25 |
| locks, two unique keys  |       3 |     8,803 |   179,049 |   429,046 |      15 |
| locks, two parents      |       3 |     3,464 |    81,582 |   202,356 |       9 |
| locks, two children     |       4 |     2,559 |   156,394 |   469,946 |      25 |
| fence, one table        |       4 |        24 | 1,240,674 | 2,145,359 |     102 |
| chunks, two chunks      |       2 |       145 |   723,735 | 2,134,298 |      99 |

The fence's logs are all of up to three entries there, and of four `aTbT`, `abTa` and `aabb`.  Of the chunks' histories
of two changes `make test` takes every 24th.
"""
