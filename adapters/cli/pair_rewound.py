"""`tidelock pair rewound`: a spoke's server has lost its last commits."""

from __future__ import annotations

import asyncio
from typing import Final

from tidelock.adapters.cli.failure import OK
from tidelock.adapters.config.pair import Pair, load

_PLANNED: Final = "Nothing was done: --apply does it."


def rewound(path: str, site: str, do: bool, forgo: bool) -> int:
    """Prints, or with `do` does, what lets the pair go on; returns the exit code.  `forgo`: what the spoke has written
    is given up."""
    pair = load(path)
    if forgo:
        return _forgone(pair, site, do)
    from tidelock.adapters.pair.rewinding import apply, plan

    found = asyncio.run(plan(pair, site))
    up, down = found.up.name, found.down.name
    print(f"{up}: it stood at {found.before}; of what {site} wrote, all behind {found.loss.place} is lost")
    if do:
        asyncio.run(apply(found))
    print(f"{up}: {'goes' if do else 'would go'} on at {found.place}, with what {site} has written since")
    if found.gone:
        print(
            f"{down}: cannot go on at the place that {site} has of it: {found.gone}. Let the writers at {site} wait; "
            f"`tidelock pair run {path} --only {up} --until-caught-up` brings the arbiter what {site} has written "
            f"since; `tidelock resync {path}#{down}` then has {site} get the arbiter's rows anew"
        )
    elif found.returns:
        print(f"{down}: has stored nothing at {site} since, so it sends back what was lost by itself, once it runs")
    else:
        print(
            f"{down}: has stored places at {site} since, and does not send back what it passed before: set `echo: all` "
            f"in {path}, run the pair, `tidelock verify {path}#{down}`, and `tidelock repair` of what differs; then "
            "set `echo: exact` again"
        )
    print("Then run the pair." if do else _PLANNED)
    return OK


def _forgone(pair: Pair, site: str, do: bool) -> int:
    from tidelock.adapters.pair.forgoing import forgo
    from tidelock.adapters.pair.rewinding import resting

    up, down = asyncio.run(resting(pair, site))
    print(f"{up.name}: what {site} has written and the arbiter has not is given up; nobody may write there now")
    if do:
        print(f"{up.name}: goes on at {asyncio.run(forgo(up))}, the present end of its log")
    else:
        print(f"{up.name}: would go on at the present end of the log")
    print(f"{down.name}: `tidelock resync {pair.path}#{down.name}` has {site} get the arbiter's rows anew")
    print("Then run the pair; writers go on once these rows are copied." if do else _PLANNED)
    return OK
