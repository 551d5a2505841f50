"""`tidelock log`: what an operator decides about records of the log in Kafka."""

from __future__ import annotations

import asyncio

from tidelock.adapters.cli.failure import OK, CommandError
from tidelock.adapters.cli.output import print_json
from tidelock.adapters.config.feed_file import load

SHOWN_BYTES = 64


def skip(path: str, partition: int, offset: int, json: bool) -> int:
    """Passes over one record; returns the exit code."""
    feed = load(path)
    if feed.log_url is None:
        raise CommandError(f"{path}: `log` is embedded, and holds no records of others")
    from tidelock.adapters.operator.foreign_record import skip as skip_record

    record = asyncio.run(skip_record(feed, partition, offset))
    if json:
        print_json({"feed": feed.name, "partition": partition, "offset": offset, "value": record.value.hex()})
        return OK
    shown = record.value[:SHOWN_BYTES].hex() + ("…" if len(record.value) > SHOWN_BYTES else "")
    print(
        f"{feed.name}: record {offset} of partition {partition} is passed over: {len(record.value):,} bytes, {shown}. "
        f"The control topic keeps a copy (key skipped/{partition}/{offset}); halted groups begin anew."
    )
    return OK
