from adapters.mysql.assembly import Assembly
from adapters.mysql.decoder import Decoder

SOURCE: str

def crc32(b: bytes) -> int: ...

class UsualEvents:
    def __init__(self, decoder: Decoder, assembly: Assembly) -> None: ...
    def take(self, b: bytes, at: int) -> int: ...
