"""One feed of a pair in a process of its own: `tidelock run PAIR.yaml#NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelock.adapters.config.feed_file import MARK
from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.process.command_process import CommandProcess, Tell


class Runner(CommandProcess):
    """The process of one feed.  `options`: of `tidelock run`.  `tell`, `ended`: as in `CommandProcess`."""

    def __init__(
        self,
        pair: Pair,
        one: PairFeed,
        tell: Tell,
        options: Sequence[str] = (),
        ended: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(one.name, ["run", f"{pair.path}{MARK}{one.name}", *options], tell, ended)
