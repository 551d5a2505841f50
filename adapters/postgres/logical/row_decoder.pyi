from typing import Any

from tidelock.adapters.postgres.logical.assembly import Assembly
from tidelock.adapters.postgres.logical.stream_state import PlainStreamState

SOURCE: str

class StreamState(PlainStreamState): ...

class UsualMessages:
    def __init__(self, assembly: Assembly) -> None: ...
    def take(self, payload: Any, lsn: int) -> None: ...
