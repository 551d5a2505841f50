"""*plain*: *mix* on a table whose only key is its primary key: what a secondary unique key costs is the difference."""

from __future__ import annotations

import dataclasses

from bench.harness.workload.mix import ACCOUNT, Mix, without_version


class Plain(Mix):
    """The same changes as `Mix`, one by one."""

    name = "plain"

    def __init__(self, *, peers: bool = False) -> None:
        super().__init__(peers=peers)
        account = dataclasses.replace(ACCOUNT, uniques=())
        self.specs = (without_version(account) if peers else account,)
