from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.log_state import PlainLogState
from tidelock.adapters.mysql.binlog.tables import LoggedTable, Tables

SOURCE: str

def crc32(b: bytes) -> int: ...

class LogState(PlainLogState): ...

class UsualEvents:
    def __init__(
        self, assembly: Assembly, tables: Tables, maps: dict[int, LoggedTable], unreached: set[int]
    ) -> None: ...
    def take(self, b: bytes, at: int) -> int: ...
