"""The pause between two questions whether the server works on an answer (`adapters.process.patience`).

It has a module of its own, so that who only needs the number does without asyncio.
"""

from __future__ import annotations

from typing import Final

SECOND_LOOK_SECONDS: Final = 1.0
