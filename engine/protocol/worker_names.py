"""Words that workers say about their names through the control topic: plain data, in the topic's order.

Everybody reads the same records in the same order, so everybody knows the same holder of a name
(`engine.cluster.name_holder`), whatever their clocks say.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class NameWord(msgspec.Struct, frozen=True):
    """One word of one life of a worker.  Key `worker/<name>`.

    - `says`: `claim`: it wants the name; `alive`: it has the name, in answer to a claim; `take`: who had the name is
      dead, or did not answer; `left`: it has ended in order.
    - `token`: of this life.  `host`, `pid`, `since_us`: for people; `since_us` is the worker's clock.
    - `place`: boot, pid namespace and start time of the process, '' where the kernel does not tell.
    """

    says: Literal["claim", "alive", "take", "left"]
    name: str
    token: str
    host: str
    pid: int
    since_us: int
    place: str = ""
