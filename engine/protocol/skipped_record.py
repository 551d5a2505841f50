"""A record of the changes topic that an operator passed over, with a copy of it, in the control topic."""

from __future__ import annotations

import msgspec


class SkippedRecord(msgspec.Struct, frozen=True):
    """A record that is none of the publisher's.  Key `skipped/<partition>/<offset>`.

    `value`: its bytes.  `host`, `at_us`: where and when it was passed over, for people.
    """

    partition: int
    offset: int
    value: bytes
    host: str = ""
    at_us: int = 0
