"""Needs of a session on a cluster, beside those on this machine: a secret, encrypted wires, and executors that come.

Tasks carry the databases' passwords to the executors, so Spark authenticates and encrypts between its processes unless
the feed says otherwise.  YARN and Kubernetes make the secret themselves; a master of Spark's own (`spark://`) shares
one with its applications.  A master that has nobody to run a job lets it wait for ever, in silence: here the session
does not open.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

EXECUTOR_SECONDS: Final = 90.0
TELL_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.1
SECRET: Final = "spark.authenticate.secret"
_PRIVATE: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}


class ClusterRefused(Exception):
    """The feed's settings do not suit its cluster, or the cluster gives nothing to work with."""

    exit_code = 1


def is_cluster(master: str) -> bool:
    """Tells whether executors are processes of their own, on whatever machine."""
    return not master.startswith("local") or master.startswith("local-cluster")


def private(master: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Returns settings that keep what travels between Spark's processes private.  `asked`: the feed's own.

    There are none where the feed turns authentication off: Spark encrypts only between processes that know each other.
    Raises ClusterRefused.
    """
    if asked.get("spark.authenticate") == "false":
        return {}
    if master.startswith("local-cluster"):
        return {**_PRIVATE, SECRET: secrets.token_hex(16)}
    if master.startswith("spark://") and SECRET not in asked:
        raise ClusterRefused(
            f"{master} would be given the databases' passwords, and nothing says how to tell it from another: set "
            f"`{SECRET}` in `spark.settings`, as in the cluster's own spark-defaults.conf (with "
            "`spark.authenticate true`), or `spark.authenticate: 'false'` where its network is trusted"
        )
    return dict(_PRIVATE)


def await_executors(spark: SparkSession, master: str) -> None:
    """Returns once an executor is there; tells that it waits.  Raises ClusterRefused."""
    context = spark.sparkContext._jsc.sc()
    begun = told = time.monotonic()
    while context.getExecutorMemoryStatus().size() < 2:  # the driver is one
        now = time.monotonic()
        if now - told > TELL_SECONDS:
            told = now
            log.warning("%s has started no executor yet, after %.0f s; waiting for one", master, now - begun)
        if now - begun > EXECUTOR_SECONDS:
            raise ClusterRefused(
                f"{master} has started no executor for {EXECUTOR_SECONDS:.0f} s: its workers are away or busy, have "
                "less memory or cores than `spark.executor.memory` and `spark.executor.cores` ask for, cannot reach "
                "this machine (`spark.driver.host`), or know another secret. Its web page and workers' logs say which"
            )
        time.sleep(POLL_SECONDS)
