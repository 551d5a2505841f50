from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.decoder import Decoder

SOURCE: str

def crc32(b: bytes) -> int: ...

class UsualEvents:
    def __init__(self, decoder: Decoder, assembly: Assembly) -> None: ...
    def take(self, b: bytes, at: int) -> int: ...
