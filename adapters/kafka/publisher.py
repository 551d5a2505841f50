"""The publisher process as the conductor sees it: started, told what to publish, heard, stopped."""

from __future__ import annotations

from adapters.frames import Failed
from adapters.kafka.orders import AtStatement, Published, PublishOrder
from engine.plan import Plan


class PublisherProcess:
    """One life of the process.  It is started before its order is known, so that its imports overlap other work.

    After `Failed` there is nothing more; a retryable one is answered with a new process and the same order (it goes on
    from the end of the log).  Not retryable: another publisher has fenced it, or an operator is needed.
    """

    def __init__(self) -> None: ...

    @property
    def pid(self) -> int:
        raise NotImplementedError

    async def begin(self, order: PublishOrder) -> None:
        raise NotImplementedError

    async def next(self) -> Published | AtStatement | Failed:
        """What the process tells next."""
        raise NotImplementedError

    async def go_on(self, plan: Plan) -> None:
        """Leave to publish behind the statement, under `plan`."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End it and wait until it is gone."""
        raise NotImplementedError
