"""Cases of other systems' own tests of two ways: what is written at an arbiter and at its spoke, and how it ends.

Each case follows a test of PostgreSQL, Spock or pgactive, in words of ours: the spoke is the node that publishes there,
the arbiter the one that applies.  What the others do with it stands beside it in
docs/explanation/conflicts-of-peers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

KEYED, VERSIONED = "a int PRIMARY KEY, b int", "a int PRIMARY KEY, b int, v int"
UNIQUES = "a int PRIMARY KEY, b int UNIQUE, c int UNIQUE"
LONG = "a int PRIMARY KEY, other varchar(20), data varchar(4000)"
Rows = Sequence[tuple[Any, ...]]


class End(NamedTuple):
    """`rows`: of both sites.  `told`: what is kept of what lost, each as `type: outcome`."""

    rows: Rows
    told: Sequence[str] = ()


class Round(NamedTuple):
    """Statements of one round, in which neither site sees the other's; `{t}` is the table."""

    arbiter: Sequence[str] = ()
    spoke: Sequence[str] = ()


class Case(NamedTuple):
    """`of`: the tests that it follows.  `ends`: by policy.  `select`: what is compared.

    `arbiter_made`: statements that make the table at the arbiter, in place of `columns`.
    `outside`: the column that PostgreSQL keeps outside of its row, as it is.  `postgres`: both sites are.
    """

    of: str
    columns: str
    rounds: Sequence[Round]
    ends: Mapping[str, End]
    select: str = "*"
    arbiter_made: Sequence[str] = ()
    outside: str = ""
    postgres: bool = False


def alike(end: End) -> dict[str, End]:
    """The same end whoever stands."""
    return dict.fromkeys(("arrival", "arbiter"), end)


MANY = ["multiple_unique_conflicts: displaced"] * 3
THREE = [(2, 2, 2), (3, 3, 3), (4, 4, 4)]
LATER = [(6, 6, 6), (7, 7, 7), (8, 8, 8)]
DATES = "'2025-05-06 10:30:45.123456+00', '2025-05-06 10:30:45.123456', '2025-05-06', '1 day 02:03:04', {float}"
INSTANTS = "a, extract(epoch FROM ts), extract(epoch FROM tsn), to_char(d, 'YYYY-MM-DD'), extract(epoch FROM iv), f"

CASES: dict[str, Case] = {
    "inserts at both sites": Case(
        "PostgreSQL 030, Spock bidirectional",
        KEYED,
        [
            Round(["INSERT INTO {t} VALUES (11, 1)"], ["INSERT INTO {t} VALUES (21, 2)"]),
            Round(["UPDATE {t} SET b = 3 WHERE a = 21"], ["UPDATE {t} SET b = 4 WHERE a = 11"]),
            Round(["DELETE FROM {t} WHERE a = 11"]),
        ],
        alike(End([(21, 3)])),
    ),
    "an insert that meets three rows": Case(
        "PostgreSQL 035",
        UNIQUES,
        [Round(["INSERT INTO {t} VALUES (2, 2, 2), (3, 3, 3), (4, 4, 4)"], ["INSERT INTO {t} VALUES (2, 3, 4)"])],
        {
            "arrival": End([(2, 3, 4)], ["insert_exists: write", *MANY[:2]]),
            "arbiter": End(THREE, ["insert_exists: verdict"]),
        },
    ),
    "an update that meets three rows": Case(
        "PostgreSQL 035",
        UNIQUES,
        [
            Round(spoke=["INSERT INTO {t} VALUES (5, 5, 5)"]),
            Round(
                ["INSERT INTO {t} VALUES (6, 6, 6), (7, 7, 7), (8, 8, 8)"],
                ["UPDATE {t} SET a = 6, b = 7, c = 8 WHERE a = 5"],
            ),
        ],
        {
            "arrival": End([(6, 7, 8)], MANY),
            "arbiter": End([(5, 5, 5), *LATER], ["multiple_unique_conflicts: verdict"]),
        },
    ),
    "the same row at a partition": Case(
        "PostgreSQL 035",
        "a int PRIMARY KEY, b int, c int",
        [Round(["INSERT INTO {t} VALUES (55, 2, 3)"], ["INSERT INTO {t} VALUES (55, 2, 3)"])],
        alike(End([(55, 2, 3)])),
        arbiter_made=[
            "CREATE TABLE {t} (a int PRIMARY KEY, b int, c int, UNIQUE (a, b)) PARTITION BY RANGE (a)",
            "CREATE TABLE {t}_part PARTITION OF {t} FOR VALUES FROM (MINVALUE) TO (100)",
            "ALTER TABLE {t}_part REPLICA IDENTITY FULL",
        ],
        postgres=True,
    ),
    "an update of a row that was deleted": Case(
        "PostgreSQL 035, Spock tuple_origin",
        VERSIONED,
        [
            Round(["INSERT INTO {t} VALUES (1, 1, 1), (2, 2, 1)"]),
            Round(["DELETE FROM {t} WHERE a = 1"], ["UPDATE {t} SET b = 3, v = 2 WHERE a = 1"]),
        ],
        {
            "arrival": End([(1, 3, 2), (2, 2, 1)], ["update_missing: write"]),
            "arbiter": End([(2, 2, 1)], ["update_missing: verdict"]),
            "latest": End([(1, 3, 2), (2, 2, 1)], ["update_missing: write"]),
            "delete wins": End([(2, 2, 1)], ["update_missing: verdict"]),
        },
    ),
    "a delete of a row that was updated": Case(
        "PostgreSQL 035, Spock tuple_origin",
        VERSIONED,
        [
            Round(["INSERT INTO {t} VALUES (3, 33, 1)"]),
            Round(["UPDATE {t} SET b = 333, v = 2 WHERE a = 3"], ["DELETE FROM {t} WHERE a = 3"]),
        ],
        {
            "arrival": End([], ["delete_origin_differs: write"]),
            "arbiter": End([(3, 333, 2)], ["delete_origin_differs: verdict"]),
            "latest": End([(3, 333, 2)], ["delete_origin_differs: verdict"]),
            "delete wins": End([], ["delete_origin_differs: write"]),
        },
    ),
    "a delete of a row that is gone": Case(
        "Spock tuple_origin",
        KEYED,
        [
            Round(["INSERT INTO {t} VALUES (3, 5)"]),
            Round(["DELETE FROM {t} WHERE a = 3"], ["DELETE FROM {t} WHERE a = 3"]),
        ],
        alike(End([])),
    ),
    "an update of a row that was updated": Case(
        "PostgreSQL 030, Spock tuple_origin",
        VERSIONED,
        [
            Round(["INSERT INTO {t} VALUES (1, 1, 1)"]),
            Round(["UPDATE {t} SET b = 2, v = 3 WHERE a = 1"], ["UPDATE {t} SET b = 3, v = 2 WHERE a = 1"]),
        ],
        {
            "arrival": End([(1, 3, 2)], ["update_origin_differs: write"]),
            "arbiter": End([(1, 2, 3)], ["update_origin_differs: verdict"]),
            "latest": End([(1, 2, 3)], ["update_origin_differs: verdict"]),
        },
    ),
    "an insert of a row that is there": Case(
        "Spock tuple_origin",
        VERSIONED,
        [Round(["INSERT INTO {t} VALUES (4, 1, 1)"], ["INSERT INTO {t} VALUES (4, 2, 2)"])],
        {
            "arrival": End([(4, 2, 2)], ["insert_exists: write"]),
            "arbiter": End([(4, 1, 1)], ["insert_exists: verdict"]),
            "latest": End([(4, 2, 2)], ["insert_exists: write"]),
        },
    ),
    "an update that takes a unique value": Case(
        "Spock conflict_types (update_exists)",
        UNIQUES,
        [
            Round(["INSERT INTO {t} VALUES (1, 1, 1)"]),
            Round(["INSERT INTO {t} VALUES (2, 2, 2)"], ["UPDATE {t} SET b = 2 WHERE a = 1"]),
        ],
        {
            "arrival": End([(1, 2, 1)], ["update_exists: displaced"]),
            "arbiter": End([(1, 1, 1), (2, 2, 2)], ["update_exists: verdict"]),
        },
    ),
    "a key that changes twice in a transaction": Case(
        "Spock tuple_origin",
        KEYED,
        [Round(spoke=["BEGIN; INSERT INTO {t} VALUES (1, 5); UPDATE {t} SET a = 2; UPDATE {t} SET a = 3; COMMIT"])],
        alike(End([(3, 5)])),
    ),
    "a row that changes twice in a transaction": Case(
        "Spock 025_tiebreaker, tuple_origin",
        "a int PRIMARY KEY, b varchar(20)",
        [
            Round(spoke=["INSERT INTO {t} VALUES (1, 'initial')"]),
            Round(spoke=["BEGIN; UPDATE {t} SET b = 'first'; UPDATE {t} SET b = 'second'; COMMIT"]),
            Round(spoke=["BEGIN; INSERT INTO {t} VALUES (2, 'C'); UPDATE {t} SET b = 'D' WHERE a = 2; COMMIT"]),
        ],
        alike(End([(1, "second"), (2, "D")])),
    ),
    "nothing in a unique column": Case(
        "Spock conflict_secondary_unique",
        "a int PRIMARY KEY, b int UNIQUE",
        [Round(["INSERT INTO {t} VALUES (1, NULL)"], ["INSERT INTO {t} VALUES (2, NULL), (3, 10), (4, NULL)"])],
        alike(End([(1, ""), (2, ""), (3, 10), (4, "")])),
    ),
    "long values that stay": Case(
        "Spock toasted, pgactive dml_toasted",
        LONG,
        [
            Round(spoke=["INSERT INTO {t} VALUES (1, 'foo', repeat('0123456789', 300)), (2, 'b', repeat('a', 3000))"]),
            Round(["UPDATE {t} SET other = 'h' WHERE a = 2"], ["UPDATE {t} SET other = 'foo2'"]),
            Round(["INSERT INTO {t} VALUES (9001, 'b', 'c')"], ["UPDATE {t} SET data = concat('-', data) WHERE a = 1"]),
        ],
        {
            "arrival": End([(1, "foo2", 3001), (2, "foo2", 3000), (9001, "b", 1)], ["update_origin_differs: write"]),
            "arbiter": End([(1, "foo2", 3001), (2, "h", 3000), (9001, "b", 1)], ["update_origin_differs: verdict"]),
        },
        select="a, other, length(data)",
        outside="data",
    ),
    "dates between sites that spell them otherwise": Case(
        "Spock 037_wire_format_datestyle",
        "a int PRIMARY KEY, ts timestamptz, tsn timestamp, d date, iv interval, f float8",
        [
            Round(
                [f"INSERT INTO {{t}} VALUES (1, {DATES.format(float='1.2345678901234567')})"],
                [f"INSERT INTO {{t}} VALUES (2, {DATES.format(float='0.1')})"],
            )
        ],
        alike(
            End([
                (1, "1746527445.123456", "1746527445.123456", "2025-05-06", "93784.000000", "1.2345678901234567"),
                (2, "1746527445.123456", "1746527445.123456", "2025-05-06", "93784.000000", "0.1"),
            ])
        ),
        select=INSTANTS,
        postgres=True,
    ),
}  # fmt: skip
