"""All planted bugs, concern by concern."""

from __future__ import annotations

from simulations.mutants.capture import CAPTURE, ORIGIN
from simulations.mutants.checkpoint import CHECKPOINT
from simulations.mutants.commit_order import COMMIT_ORDER
from simulations.mutants.copying import CASCADES, LEDGER, MERGING
from simulations.mutants.gathering import GATHERING
from simulations.mutants.keys import EQUALITY, REFERENCES, UNIQUE
from simulations.mutants.lineage import LINEAGE
from simulations.mutants.locks import LOCKS
from simulations.mutants.log import BARRIER, ORDER, ROOM
from simulations.mutants.merge import MERGE
from simulations.mutants.parking import ISOLATION, PARKING, WISHES
from simulations.mutants.receipts import DOUBT, FENCE
from simulations.mutants.repairing import KEPT, REFUSED, REPAIRS
from simulations.mutants.streaming import STREAMING
from simulations.mutants.target import TARGET

CATALOGUE = (
    *LOCKS,
    *UNIQUE,
    *EQUALITY,
    *REFERENCES,
    *MERGE,
    *FENCE,
    *DOUBT,
    *CHECKPOINT,
    *ORDER,
    *LINEAGE,
    *BARRIER,
    *ROOM,
    *GATHERING,
    *COMMIT_ORDER,
    *STREAMING,
    *ISOLATION,
    *PARKING,
    *WISHES,
    *ORIGIN,
    *CAPTURE,
    *TARGET,
    *LEDGER,
    *MERGING,
    *CASCADES,
    *REFUSED,
    *KEPT,
    *REPAIRS,
)
