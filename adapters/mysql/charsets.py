"""Collation ids of the log, their character sets, and the decoders of those.

The log names a collation by number; `CHARSETS` lists the numbers of each character set, of MySQL 9 and MariaDB 10.11
(MariaDB's UCA-1400 collations begin at 2048).  A decoder follows the *server's* conversion: where the Python codec of
the same name differs, the bytes in question are mapped as the server maps them (single-byte sets), or the text counts
as undecodable (multi-byte sets) and stays `bytes`.  A wrong letter is never produced.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

BINARY: Final = 63

CHARSETS: Final = {
    "armscii8": "32 64 1056 1088",
    "ascii": "11 65 1035 1089",
    "big5": "1 84 1025 1108",
    "binary": "63",
    "cp1250": "26 34 44 66 99 1050 1090",
    "cp1251": "14 23 50-52 1074-1075",
    "cp1256": "57 67 1081 1091",
    "cp1257": "29 58-59 1082-1083",
    "cp850": "4 80 1028 1104",
    "cp852": "40 81 1064 1105",
    "cp866": "36 68 1060 1092",
    "cp932": "95-96 1119-1120",
    "dec8": "3 69 1027 1093",
    "eucjpms": "97-98 1121-1122",
    "euckr": "19 85 1043 1109",
    "gb18030": "248-250",
    "gb2312": "24 86 1048 1110",
    "gbk": "28 87 1052 1111",
    "geostd8": "92-93 1116-1117",
    "greek": "25 70 1049 1094",
    "hebrew": "16 71 1040 1095",
    "hp8": "6 72 1030 1096",
    "keybcs2": "37 73 1061 1097",
    "koi8r": "7 74 1031 1098",
    "koi8u": "22 75 1046 1099",
    "latin1": "5 8 15 31 47-49 94 1032 1071",
    "latin2": "2 9 21 27 77 1033 1101",
    "latin5": "30 78 1054 1102",
    "latin7": "20 41-42 79 1065 1103",
    "macce": "38 43 1062 1067",
    "macroman": "39 53 1063 1077",
    "sjis": "13 88 1037 1112",
    "swe7": "10 82 1034 1106",
    "tis620": "18 89 1042 1113",
    "ucs2": "35 90 128-151 159 640-642 1059 1114 1152 1174 2560-2727 2744-2759",
    "ujis": "12 91 1036 1115",
    "utf16": "54-55 101-124 672-674 1078-1079 1125 1147 2816-2983 3000-3015",
    "utf16le": "56 62 1080 1086",
    "utf32": "60-61 160-183 736-738 1084-1085 1184 1206 3072-3239 3256-3271",
    "utf8mb3": "33 76 83 192-215 223 576-578 1057 1107 1216 1238 2048-2215 2232-2247",
    "utf8mb4": "45-46 224-247 255-323 608-610 1069-1070 1248 1270 2304-2471 2488-2503",
}

# Python's name, then the bytes the server maps otherwise, then those it does not know at all.
_SINGLE_BYTE: Final[dict[str, tuple[str, dict[int, str], bytes]]] = {
    "armscii8": ("ascii", {}, b""),
    "ascii": ("ascii", {}, b""),
    "cp1250": ("cp1250", {}, b""),
    "cp1251": ("cp1251", {}, b""),
    "cp1256": ("cp1256", {}, b"\x8a\x8f\x98\x9a\x9f\xaa\xc0\xff"),
    "cp1257": ("cp1257", {}, b""),
    "cp850": ("cp850", {}, b""),
    "cp852": ("cp852", {}, b""),
    "cp866": ("cp866", {0xFC: "ⁿ", 0xFD: "²"}, b""),
    "dec8": (
        "latin_1",
        {0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"},
        b"\xa4\xa6\xac\xad\xae\xaf\xb4\xb8\xbe\xd0\xde\xf0\xfe\xff",
    ),
    "geostd8": ("ascii", {}, b""),
    "greek": ("iso8859_7", {0xA1: "ʽ", 0xA2: "ʼ"}, b"\xa4\xa5\xaa"),
    "hebrew": ("iso8859_8", {0xAF: "‾"}, b""),
    "hp8": ("hp_roman8", {}, b""),
    "keybcs2": ("ascii", {}, b""),
    "koi8r": ("koi8_r", {}, b""),
    "koi8u": ("koi8_u", {0x95: "•"}, b""),
    "latin1": ("cp1252", {code: chr(code) for code in b"\x81\x8d\x8f\x90\x9d"}, b""),
    "latin2": ("iso8859_2", {}, b""),
    "latin5": ("iso8859_9", {}, b""),
    "latin7": ("iso8859_13", {}, b""),
    "macce": ("mac_latin2", {}, b""),
    "macroman": ("mac_roman", {}, b""),
    "swe7": (
        "ascii",
        {
            0x40: "É",
            0x5B: "Ä",
            0x5C: "Ö",
            0x5D: "Å",
            0x5E: "Ü",
            0x60: "é",
            0x7B: "ä",
            0x7C: "ö",
            0x7D: "å",
            0x7E: "ü",
        },
        b"\x7f",
    ),
    "tis620": ("tis_620", {}, b""),
}

# Python's name, then the characters of its output that the server would have decoded otherwise, or not at all.
_MULTI_BYTE: Final[dict[str, tuple[str, str]]] = {
    "big5": ("big5", "╴￣ˍ／＼十卅"),
    "cp932": ("cp932", ""),
    "eucjpms": ("euc_jp", "〜‖−¢£¬"),
    "euckr": ("cp949", ""),
    "gb18030": ("gb18030", "\ue7c7"),
    "gb2312": ("gb2312", ""),
    "gbk": ("gbk", ""),
    "sjis": ("shift_jis", ""),
    "ucs2": ("utf_16_be", ""),
    "ujis": ("euc_jp", ""),
    "utf16": ("utf_16_be", ""),
    "utf16le": ("utf_16_le", ""),
    "utf32": ("utf_32_be", ""),
    "utf8mb3": ("utf_8", ""),
    "utf8mb4": ("utf_8", ""),
}

# The server writes a backslash as the full-width one, the only character that these two read otherwise.
_JAPANESE: Final = ("sjis", "ujis")

Decode = Callable[[bytes], str]


def _collations() -> dict[int, str]:
    numbers: dict[int, str] = {}
    for charset, ranges in CHARSETS.items():
        for first, _, last in (part.partition("-") for part in ranges.split()):
            numbers.update(dict.fromkeys(range(int(first), int(last or first) + 1), charset))
    return numbers


_BY_COLLATION: Final = _collations()


def charset_of(collation: int) -> str | None:
    """The character set of a collation id; None for an id that neither server had when this was written."""
    return _BY_COLLATION.get(collation)


def single_byte_table(charset: str) -> str | None:
    """The 256 characters of a single-byte set, U+FFFE where a byte has none; None for a multi-byte set."""
    entry = _SINGLE_BYTE.get(charset)
    if entry is None:
        return None
    codec, mapped, unknown = entry
    table = [_character(codec, code) for code in range(256)]
    for code, character in mapped.items():
        table[code] = character
    for code in unknown:
        table[code] = "\ufffe"
    return "".join(table)


def _character(codec: str, code: int) -> str:
    try:
        return bytes([code]).decode(codec)
    except UnicodeDecodeError:
        return "\ufffe"  # what codecs.charmap_decode takes for "undefined"


def is_utf8(charset: str) -> bool:
    """Tell whether texts of a charset are UTF-8."""
    return charset in ("utf8mb3", "utf8mb4")


def decoder(charset: str) -> Decode:
    """Decodes as the server does; raises UnicodeDecodeError for bytes without text, also where Python finds one."""
    table = single_byte_table(charset)
    if table is not None:
        characters = table
        return lambda raw: codecs.charmap_decode(raw, "strict", characters)[0]
    codec, doubtful = _MULTI_BYTE[charset]
    if charset in _JAPANESE:
        return lambda raw: raw.decode(codec).replace("＼", "\\")
    if not doubtful:
        return lambda raw: raw.decode(codec)
    suspects = frozenset(doubtful)

    def decode(raw: bytes) -> str:
        text = raw.decode(codec)
        if not suspects.isdisjoint(text):
            raise UnicodeDecodeError(codec, raw, 0, len(raw), "the server maps these bytes otherwise")
        return text

    return decode


def lenient_decoder(charset: str) -> Callable[[bytes], str | bytes]:
    """Makes a decoder of a charset that leaves bytes which cannot be decoded as they are."""
    decode = decoder(charset)

    def text_or_bytes(raw: bytes) -> str | bytes:
        try:
            return decode(raw)
        except UnicodeDecodeError:
            return raw

    return text_or_bytes
