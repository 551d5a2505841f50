"""Name of a feed's replication slot and publication at a PostgreSQL source: `tidelock_<feed>`."""

from __future__ import annotations

import hashlib
from typing import Final

NAME_BYTES: Final = 63
_PREFIX: Final = "tidelock_"
_DIGEST_BYTES: Final = 4


def slot_name(feed: str) -> str:
    """Returns the name.  A slot's has no `-` and at most 63 bytes: a hash keeps apart feeds that only these do."""
    plain = _PREFIX + feed.replace("-", "_")
    if "-" not in feed and len(plain) <= NAME_BYTES:
        return plain
    digest = hashlib.blake2b(feed.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{plain[: NAME_BYTES - len(digest) - 1]}_{digest}"
