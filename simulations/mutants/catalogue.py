"""All planted bugs, concern by concern."""

from __future__ import annotations

from tidelock.simulations.mutants.altering import ALTERING
from tidelock.simulations.mutants.arbiter import ARBITER
from tidelock.simulations.mutants.capture import CAPTURE, ORIGIN
from tidelock.simulations.mutants.checkpoint import CHECKPOINT
from tidelock.simulations.mutants.coalescing import COALESCING
from tidelock.simulations.mutants.commit_order import COMMIT_ORDER
from tidelock.simulations.mutants.copying import CASCADES, LEDGER, MERGING
from tidelock.simulations.mutants.cutting import CUTTING
from tidelock.simulations.mutants.keys import EQUALITY, REFERENCES, UNIQUE
from tidelock.simulations.mutants.lineage import LINEAGE
from tidelock.simulations.mutants.locks import LOCKS
from tidelock.simulations.mutants.log import BARRIER, ORDER, ROOM
from tidelock.simulations.mutants.looking import LOOKING
from tidelock.simulations.mutants.merge import MERGE
from tidelock.simulations.mutants.parking import BAD_ROWS, PARKING, WISHES
from tidelock.simulations.mutants.partial import PARTIAL
from tidelock.simulations.mutants.permits import DECIDING, PERMITS
from tidelock.simulations.mutants.receipts import DOUBT, FENCE
from tidelock.simulations.mutants.repairing import KEPT, REFUSED, REPAIRS
from tidelock.simulations.mutants.sites import SITES
from tidelock.simulations.mutants.stamps import STAMPS
from tidelock.simulations.mutants.streaming import STREAMING
from tidelock.simulations.mutants.target import TARGET

CATALOGUE = (
    *LOCKS,
    *UNIQUE,
    *EQUALITY,
    *REFERENCES,
    *MERGE,
    *PARTIAL,
    *FENCE,
    *DOUBT,
    *CHECKPOINT,
    *ORDER,
    *LINEAGE,
    *BARRIER,
    *ROOM,
    *COALESCING,
    *COMMIT_ORDER,
    *STREAMING,
    *BAD_ROWS,
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
    *LOOKING,
    *ALTERING,
    *SITES,
    *ARBITER,
    *PERMITS,
    *DECIDING,
    *CUTTING,
    *STAMPS,
)
