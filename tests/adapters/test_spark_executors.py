"""Waiting for executors: a Spark that has none, as a cluster whose workers are away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelock.adapters.spark import cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_cluster_that_starts_no_executor_is_told_and_then_given_up(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster, "TELL_SECONDS", 0.3)
    monkeypatch.setattr(cluster, "EXECUTOR_SECONDS", 1.0)
    with pytest.raises(cluster.ClusterRefused, match="no executor for 1 s"):
        cluster.await_executors(spark, "spark://away:7077")
    assert "spark://away:7077 has started no executor yet" in caplog.text
