"""Differences that nobody listed: drawn from a table of types, with what is equal and only spelled otherwise.

Each row has a value in one column.  Both ends are written by plain SQL, the target by a literal that is the source's
value in another spelling (which is no difference) or another value (which is one): the smallest that the type tells
apart, or a large one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from random import Random

from bench.harness.rig import Rig
from bench.harness.session import Flavor

Draw = Callable[[Random], tuple[str, str, str]]
"""A value at the source, the same at the target spelled otherwise, and another one: SQL literals."""


@dataclasses.dataclass(frozen=True)
class DrawnType:
    """A type at the source and at each target; `draw` for PostgreSQL, `draw_mysql` where MySQL spells otherwise."""

    name: str
    source: str
    postgres: str
    mysql: str
    draw: Draw
    draw_mysql: Draw | None = None

    def of(self, target: Flavor) -> str:
        return self.postgres if target is Flavor.POSTGRES else self.mysql

    def drawn(self, target: Flavor, chance: Random) -> tuple[str, str, str]:
        draw = self.draw if target is Flavor.POSTGRES else self.draw_mysql or self.draw
        return draw(chance)


def _integer(chance: Random) -> tuple[str, str, str]:
    value = chance.randrange(-(1 << 62), 1 << 62)
    return str(value), f"{value}.0", str(value + chance.choice((-1, 1)))


def _decimal(chance: Random) -> tuple[str, str, str]:
    value = chance.randrange(-(10**11), 10**11)
    text = f"{'-' if value < 0 else ''}{abs(value) // 1000}.{abs(value) % 1000:03}"
    return text, f"{text}000", f"{text}001"


def _double(chance: Random) -> tuple[str, str, str]:
    value = chance.choice((chance.uniform(-1e6, 1e6), 0.0, chance.uniform(-1, 1) * 10 ** chance.randrange(-300, 300)))
    other = -1.5 if value == 0 else value * (1 + 4e-16 if chance.random() < 0.5 else 2)
    return repr(value), "'-0.0'" if value == 0 else f"{value:.17e}", repr(other if other != value else value * 2)


def _micros(chance: Random) -> int:
    return chance.choice((0, 500_000, 1, 999_999, chance.randrange(1_000_000)))


def _moment(chance: Random) -> tuple[str, str, str]:
    day = f"{chance.randrange(1000, 9999)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    hour, micros = chance.choice((0, chance.randrange(24))), _micros(chance)
    rest = f"{chance.randrange(60):02}:{chance.randrange(60):02}"
    at = f"{day} {hour:02}:{rest}"
    return f"'{at}.{micros:06}'", f"'{at}.{micros:06}'", f"'{at}.{micros ^ 1:06}'"


def _zoned(chance: Random) -> tuple[str, str, str]:
    hour, micros = chance.randrange(5, 20), _micros(chance)
    day = f"{chance.randrange(1971, 2037)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    rest = f"{chance.randrange(60):02}:{chance.randrange(60):02}.{micros:06}"
    return f"'{day} {hour:02}:{rest}'", f"'{day} {hour + 3:02}:{rest}+03'", f"'{day} {hour:02}:{rest}+01'"


def _zoned_mysql(chance: Random) -> tuple[str, str, str]:
    value = _zoned(chance)[0].strip("'")
    day, _, clock = value.partition(" ")
    return f"'{value}'", f"'{value.rstrip('0').rstrip('.')}'", f"'{day} {int(clock[:2]) + 1:02}{clock[2:]}'"


def _clock(micros: int) -> str:
    seconds = micros // 1_000_000
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros % 1_000_000:06}"


def _time(chance: Random) -> tuple[str, str, str]:
    micros = chance.randrange(800 * 3600) * 1_000_000 + _micros(chance)
    sign = chance.choice((1, -1))
    days = chance.randrange(-9, 10)
    rest = sign * micros - days * 86_400_000_000
    spelled = f"{days} days {'-' if rest < 0 else '+'}{_clock(abs(rest))}"
    shown = f"{'-' if sign < 0 else ''}{_clock(micros)}"
    other = f"{'-' if sign < 0 else ''}{_clock(micros + chance.choice((1, 86_400_000_000)))}"
    return f"'{shown}'", f"'{spelled}'", f"'{other}'"


def _time_mysql(chance: Random) -> tuple[str, str, str]:
    value, _, other = _time(chance)
    micros = value.rstrip("'").partition(".")[2]
    return value, value.replace(f".{micros}", f".{micros.rstrip('0') or '0'}"), other


def _document(chance: Random) -> tuple[str, str, str]:
    members = {name: chance.choice((1, -5, 1.5, "x", None, [1, 2], {"z": True})) for name in chance.sample("abcdef", 3)}
    turned = dict(reversed(members.items()))
    changed = members | {next(iter(members)): chance.choice(("1", False, [2, 1], {"z": 1}))}
    spelled = json.dumps(turned, separators=(" ,", " : "))
    return f"'{json.dumps(members)}'", f"'{spelled}'", f"'{json.dumps(changed)}'"


def _text(chance: Random) -> tuple[str, str, str]:
    text = "".join(chance.choice("aAéÉ ß你😀,:N") for _ in range(chance.randrange(1, 12))) + "z"
    near = chance.choice((text + " ", text[:-1] + "Z", "N" + text, text[:-1]))
    return f"'{text}'", f"'{text}'", f"'{near}'"


def _flag(chance: Random) -> tuple[str, str, str]:
    value = chance.randrange(2)
    return str(value), ("'yes'" if value else "'off'"), ("'f'" if value else "'t'")


def _flag_mysql(chance: Random) -> tuple[str, str, str]:
    value = chance.randrange(2)
    return str(value), ("TRUE" if value else "FALSE"), str(1 - value)


def _bytes(chance: Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 20))


def _bytea(chance: Random) -> tuple[str, str, str]:
    raw = _bytes(chance)
    octal = "".join(f"\\{byte:03o}" for byte in raw)
    other = chance.choice((raw + b"\0", raw[:-1] + bytes([raw[-1] ^ 1])))
    return f"x'{raw.hex()}'", f"'{octal}'", f"'\\x{other.hex()}'"


def _blob(chance: Random) -> tuple[str, str, str]:
    raw = _bytes(chance)
    other = chance.choice((raw + b"\0", raw[:-1] + bytes([raw[-1] ^ 1])))
    return f"x'{raw.hex()}'", f"0x{raw.hex().upper()}", f"x'{other.hex()}'"


def _date(chance: Random) -> tuple[str, str, str]:
    year, month, day = chance.randrange(1000, 9999), chance.randrange(1, 13), chance.randrange(1, 28)
    return f"'{year}-{month:02}-{day:02}'", f"'{year}-{month}-{day}'", f"'{year}-{month:02}-{day + 1:02}'"


TYPES = (
    DrawnType("whole", "bigint", "numeric(30,6)", "decimal(30,6)", _integer),
    DrawnType("price", "decimal(20,3)", "numeric", "decimal(30,6)", _decimal),
    DrawnType("ratio", "double", "double precision", "double", _double),
    DrawnType("moment", "datetime(6)", "timestamp", "datetime(6)", _moment),
    DrawnType("stamp", "timestamp(6) NULL", "timestamptz", "timestamp(6) NULL", _zoned, _zoned_mysql),
    DrawnType("span", "time(6)", "interval", "time(6)", _time, _time_mysql),
    DrawnType("document", "json", "jsonb", "json", _document),
    DrawnType("said", "varchar(40) CHARACTER SET utf8mb4", "text", "varchar(60) CHARACTER SET utf8mb4", _text),
    DrawnType("flag", "tinyint(1)", "boolean", "tinyint(1)", _flag, _flag_mysql),
    DrawnType("raw", "varbinary(30)", "bytea", "varbinary(30)", _bytea, _blob),
    DrawnType("day", "date", "date", "date", _date),
)


class Drawn:
    """A table `drawn`, about half of whose rows differ; `expected`: (key, column) of these."""

    def __init__(self, differences: int, seed: int, source: Flavor, target: Flavor) -> None:
        """It has as many rows as it takes for so many `differences`.  MariaDB's documents are text, in one spelling."""
        chance = Random(seed)
        types = [type_ for type_ in TYPES if type_.source != "json" or source is Flavor.MYSQL]
        names = ", ".join(("id", *(type_.name for type_ in types)))
        self.expected: list[tuple[str, str]] = []
        self.at_source, self.at_target = list[str](), list[str]()
        for id_ in itertools.count():
            if len(self.expected) == differences:
                break
            type_ = types[id_ % len(types)]
            value, same, other = type_.drawn(target, chance)
            differs = chance.random() < 0.5
            if differs:
                self.expected.append((str(id_), type_.name))
            for statements, literal in ((self.at_source, value), (self.at_target, other if differs else same)):
                cells = ", ".join(literal if one is type_ else "NULL" for one in types)
                statements.append(f"INSERT INTO drawn ({names}) VALUES ({id_}, {cells})")
        self.rows = id_
        self.expected.sort()
        self.source = ", ".join(("id int PRIMARY KEY", *(f"{t.name} {t.source}" for t in types)))
        self.target = ", ".join(("id int PRIMARY KEY", *(f"{t.name} {t.of(target)}" for t in types)))
        self._zone = "SET TIME ZONE 'UTC'" if target is Flavor.POSTGRES else "SET time_zone = '+00:00'"

    def plant(self, rig: Rig) -> None:
        """Make the table at both ends of a rig whose feed begins behind it."""
        rig.table("drawn", self.source, self.target)
        rig.at_source("SET time_zone = '+00:00'", *self.at_source)
        rig.at_target(self._zone, *self.at_target)
        rig.start_at = rig.here()
