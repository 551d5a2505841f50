"""The tables of the simulated world: one for each way in which rows can stand in each other's way."""

from __future__ import annotations

import functools

import msgspec

from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.stamp_columns import StampColumns, tombstones_of

NAMES = ("a", "A", "a ", "b", "é", "e", "É", "c")
POISON = "poison"
OWN = "own"


def table(
    name: str,
    columns: dict[str, Equality],
    key: tuple[str, ...],
    uniques: tuple[UniqueKey, ...] = (),
    foreign_keys: tuple[ForeignKey, ...] = (),
) -> TargetTable:
    """`columns`: equality by name; all but the key may be NULL."""
    specs = tuple(TargetColumn(c, "", c not in key, equality=e) for c, e in columns.items())
    keys = (UniqueKey("primary", key), *uniques) if key else uniques
    return TargetTable(TableName("shop", name), specs, key, keys, foreign_keys)


def linked(*tables: TargetTable) -> dict[TableName, TargetTable]:
    """`references` filled in from the foreign keys."""
    keys = [fk for t in tables for fk in t.foreign_keys]
    return {
        t.name: TargetTable(
            t.name, t.columns, t.key, t.uniques, t.foreign_keys, tuple(fk for fk in keys if fk.parent == t.name)
        )
        for t in tables
    }


def shape(spec: TargetTable) -> Shape:
    """As the log describes the table: without what the database computes."""
    columns = tuple(_logged(c) for c in spec.columns if not c.generated)
    return Shape(spec.name, columns, spec.key)


def _logged(column: TargetColumn) -> Column:
    if column.type.startswith("numeric"):
        return Column(column.name, Kind.DECIMAL, precision=9, scale=scale_of(column))
    return Column(column.name, Kind.INT if column.name in ("id", StampColumns().time) else Kind.TEXT)


def scale_of(column: TargetColumn) -> int:
    """Digits behind the point of a `numeric(9,2)`."""
    return int(column.type.rstrip(")").rpartition(",")[2]) if "," in column.type else 0


def with_type(spec: TargetTable, column: str, type_: str) -> TargetTable:
    columns = (msgspec.structs.replace(c, type=type_) if c.name == column else c for c in spec.columns)
    return msgspec.structs.replace(spec, columns=tuple(columns))


def with_own(spec: TargetTable) -> TargetTable:
    """With a column that only the target has."""
    return msgspec.structs.replace(spec, columns=(*spec.columns, TargetColumn(OWN, "", default=True)))


def with_stamps(spec: TargetTable) -> tuple[TargetTable, TargetTable]:
    """Returns the table with stamps in its rows, and the table of their tombstones."""
    stamp = tuple(TargetColumn(name, "", nullable=False) for name in (StampColumns().time, StampColumns().site))
    key = tuple(column for column in spec.columns if column.name in spec.key)
    dead = msgspec.structs.replace(spec, name=tombstones_of(spec.name), columns=(*key, *stamp))
    return msgspec.structs.replace(spec, columns=(*spec.columns, *stamp)), dead


def with_computed(spec: TargetTable, unique: UniqueKey) -> TargetTable:
    """With columns that both databases compute by themselves, and that no log holds."""
    computed = tuple(TargetColumn(name, "", generated=True) for name in unique.columns)
    return msgspec.structs.replace(spec, columns=(*spec.columns, *computed), uniques=(*spec.uniques, unique))


EXACT, FOLDED, PADDED = Equality.EXACT, Equality.FOLDED, Equality.FOLDED_PADDED

ACCOUNT = table("account", {"id": EXACT, "email": EXACT, "note": EXACT}, ("id",), (UniqueKey("email", ("email",)),))
MEMBER = table("member", {"id": EXACT, "nick": FOLDED, "note": EXACT}, ("id",), (UniqueKey("nick", ("nick",)),))
SEAT = table(
    "seat",
    {"id": EXACT, "hall": EXACT, "place": EXACT, "code": PADDED, "note": EXACT},
    ("id",),
    (UniqueKey("hall_place", ("hall", "place")), UniqueKey("code", ("code",))),
)
WORD = table("word", {"text": FOLDED, "rank": EXACT, "note": EXACT}, ("text",), (UniqueKey("rank", ("rank",)),))
PREFIX = table(
    "prefix", {"id": EXACT, "path": EXACT, "note": EXACT}, ("id",), (UniqueKey("path", ("path",), "prefix index"),)
)
VISIT = table("visit", {"what": EXACT, "note": EXACT}, ())
CLIENT = table("client", {"id": EXACT, "code": FOLDED, "note": EXACT}, ("id",), (UniqueKey("code", ("code",)),))
ORDER = table(
    "order",
    {"id": EXACT, "client": FOLDED, "slot": EXACT, "note": EXACT},
    ("id",),
    (UniqueKey("slot", ("slot",)),),
    (ForeignKey("order_client", TableName("shop", "order"), ("client",), CLIENT.name, ("code",)),),
)
ITEM = table(
    "item",
    {"id": EXACT, "order": EXACT, "note": EXACT},
    ("id",),
    (),
    (ForeignKey("item_order", TableName("shop", "item"), ("order",), ORDER.name, ("id",)),),
)
NODE = table(
    "node",
    {"id": EXACT, "up": EXACT, "note": EXACT},
    ("id",),
    (),
    (ForeignKey("node_up", TableName("shop", "node"), ("up",), TableName("shop", "node"), ("id",)),),
)
OWNER = table("owner", {"id": EXACT, "note": EXACT}, ("id",))
PET = table(
    "pet",
    {"id": EXACT, "owner": EXACT, "chip": EXACT, "note": EXACT},
    ("id",),
    (UniqueKey("chip", ("chip",)),),
    (ForeignKey("pet_owner", TableName("shop", "pet"), ("owner",), OWNER.name, ("id",), cascades=True),),
)

LEAD = table(
    "lead",
    {"id": EXACT, "region": EXACT, "code": EXACT, "note": EXACT},
    ("id",),
    (UniqueKey("code", ("code",)),),
)
BADGE = table("badge", {"id": EXACT, "code": EXACT, "note": EXACT}, ("id",), (UniqueKey("code", ("code",)),))
CARD = with_own(table("card", {"id": EXACT, "code": EXACT, "note": EXACT}, ("id",), (UniqueKey("code", ("code",)),)))
TALK = with_computed(
    table("talk", {"id": EXACT, "title": EXACT, "note": EXACT}, ("id",)), UniqueKey("slug", ("slug",))
)
RATE = with_type(
    table("rate", {"id": EXACT, "level": EXACT, "note": EXACT}, ("id",), (UniqueKey("level", ("level",)),)),
    "level",
    "numeric(9,2)",
)
OFFER = with_type(
    table(
        "offer",
        {"id": EXACT, "level": EXACT, "note": EXACT},
        ("id",),
        (),
        (ForeignKey("offer_rate", TableName("shop", "offer"), ("level",), RATE.name, ("level",)),),
    ),
    "level",
    "numeric(9,1)",
)
LABEL = table(
    "label",
    {"id": EXACT, "line": Equality.PADDED, "note": EXACT},
    ("id",),
    (UniqueKey("line", ("line",)),),
)
ECHO = table("echo", {"id": EXACT, "note": EXACT}, ("id",))

TOY = table(
    "toy",
    {"id": EXACT, "pet": EXACT, "note": EXACT},
    ("id",),
    (),
    (ForeignKey("toy_pet", TableName("shop", "toy"), ("pet",), PET.name, ("id",), cascades=True),),
)
TAG = table(
    "tag",
    {"id": EXACT, "pet": EXACT, "note": EXACT},
    ("id",),
    (),
    (ForeignKey("tag_pet", TableName("shop", "tag"), ("pet",), PET.name, ("id",)),),
)

# Columns that are merged by value where sites have an arbiter: what is added, the greatest, the smallest.
NUMBERS = ("count", "peak", "low", "version")
STOCK = functools.reduce(
    lambda spec, column: with_type(spec, column, "numeric(9)"),
    NUMBERS,
    table("stock", dict.fromkeys(("id", *NUMBERS, "place", "note"), EXACT), ("id",)),
)

# Two tables of the source become it, of which one has no `tier`: the target fills in its default.
TIER = "tier"
POOL = table("pool", {"id": EXACT, TIER: EXACT, "note": EXACT}, ("id",), (UniqueKey(TIER, (TIER,)),))
POOL = msgspec.structs.replace(
    POOL, columns=tuple(msgspec.structs.replace(c, default=c.name == TIER) for c in POOL.columns)
)

# Families: tables joined by foreign keys come together.  The last cascades, over two levels; `tag` refuses there.
FAMILIES = (
    (ACCOUNT,), (MEMBER,), (SEAT,), (WORD,), (PREFIX,), (VISIT,), (CLIENT, ORDER, ITEM), (NODE,), (LEAD,), (BADGE,),
    (CARD,), (TALK,), (LABEL,), (RATE, OFFER),
)  # fmt: skip
CASCADING = (OWNER, PET, TOY, TAG)

# Tables whose rows have stamps, each with its tombstones: for worlds of sites alone.
STAMPED = {
    name: with_stamps(table(name, {"id": EXACT, "name": EXACT, "note": EXACT}, ("id",))) for name in ("entry", "spot")
}

# By the name of the first table.
BY_NAME = {
    family[0].name.table: family for family in (*FAMILIES, CASCADING, (POOL,), (STOCK,), *STAMPED.values())
}

# How a source logs what its foreign keys cascade: MariaDB and MySQL to 8.4 not at all, MySQL 9.7 each child before its
# parent, PostgreSQL the parent first (counter-example 11).
CASCADES = ("hidden", "child first", "parent first")
