"""Spark's classes as Java keeps them (`adapters.spark.kept_classes`), for the many short lives of Spark in tests."""

from __future__ import annotations

from pathlib import Path

from tidelock.adapters.process.host import Missing
from tidelock.adapters.spark.kept_classes import SHORT, options, place


def java_options() -> str:
    """Options for short lives of Spark, with the classes where they were written."""
    return f"{SHORT} {options()}".rstrip()


def there() -> Path:
    """The classes.  Raises Missing where they were not written yet."""
    path = place()
    if not path.exists():
        raise Missing(f"{path} is not here: run `make servers`")
    return path
