"""Cases of other systems' own tests of two ways, on real servers: both sites end equal, and what lost is kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.harness.network import Network, Node
from bench.harness.servers import Postgres, Server
from tests.adapters.peer_cases import CASES, Case, Round

PROOF = pytest.mark.proof
PAIRS = [
    pytest.param("postgres_source", "postgres", id="postgres-postgres"),
    pytest.param("mariadb", "postgres_source", id="mariadb-postgres", marks=PROOF),
    pytest.param("postgres_source", "mysql", id="postgres-mysql", marks=PROOF),
    pytest.param("mysql", "other_mysql", id="mysql-mysql", marks=PROOF),
    pytest.param("mysql", "mariadb", id="mysql-mariadb", marks=PROOF),
]
POLICIES: Mapping[str, dict[str, Any]] = {
    "arrival": {"default": "arrival"},
    "arbiter": {"default": "arbiter"},
    "latest": {"default": "latest", "version": "v"},
    "delete wins": {"default": "delete wins", "version": "v"},
}


class Peers:
    """An arbiter and its spoke with a table for each case under each of its policies."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.arbiter, self.spoke = network["eu"], network["us"]
        every = all(isinstance(node.server, Postgres) for node in (self.arbiter, self.spoke))
        self.cases = [
            (f"case{number}", case, policy)
            for number, (case, policy) in enumerate(
                (case, policy) for case in CASES.values() if every or not case.postgres for policy in case.ends
            )
        ]
        rules = [
            {"source": f"{network.schema}.{table}", "conflicts": POLICIES[policy]} for table, _, policy in self.cases
        ]
        for feed in network.feeds.values():
            feed.options |= {"conflicts": {"arbiter": "eu"}, "journal": ""}
            feed.tables = rules
        if every:
            self._spell_dates_otherwise()
        for table, case, _ in self.cases:
            _make(self.arbiter, table, case, case.arbiter_made)
            _make(self.spoke, table, case)
        catch_up(network)

    def _spell_dates_otherwise(self) -> None:
        for node, style, zone in ((self.spoke, "SQL, MDY", "Asia/Tokyo"), (self.arbiter, "SQL, DMY", "UTC")):
            node.send(f"ALTER DATABASE {node.database} SET datestyle = '{style}'")
            node.send(f"ALTER DATABASE {node.database} SET timezone = '{zone}'")
            node.send("SET timezone = 'UTC'")

    def play(self) -> None:
        """All rounds of all cases; after each the feeds catch up, and what was decided comes back."""
        for number in range(max(len(case.rounds) for _, case, _ in self.cases)):
            for table, case, _ in self.cases:
                if number < len(case.rounds):
                    self._write(table, case.rounds[number])
            catch_up(self.network)

    def _write(self, table: str, one: Round) -> None:
        for node, statements in ((self.arbiter, one.arbiter), (self.spoke, one.spoke)):
            node.send(*(statement.format(t=table) for statement in statements))

    def rows(self, node: Node, table: str, case: Case) -> list[tuple[str, ...]]:
        """As text; '' for NULL."""
        columns = case.select if case.select != "*" else ", ".join(_names(case.columns))
        texts = ", ".join(f"CONCAT({column}, '')" for column in _split(columns))
        found = node.rows(f"SELECT {texts} FROM {table} ORDER BY a")
        return [tuple("" if value is None else str(value) for value in row) for row in found]

    def told(self, table: str) -> list[str]:
        """What is kept of rows that lost, at either site, as `type: outcome`."""
        kept = f"{self.network.books}.tidelock_conflicts WHERE table_name = '{table}'"
        found = [
            row
            for node in (self.arbiter, self.spoke)
            for row in node.rows(f"SELECT type, outcome FROM {kept}")
        ]
        return sorted(f"{kind}: {outcome}" for kind, outcome in found)


def catch_up(network: Network) -> None:
    """The spoke's changes to the arbiter, then all that goes back."""
    for edge in ("us>eu", "eu>us"):
        said = network.feeds[edge].command("run", "--until-caught-up")
        assert said.code == 0, f"{said.out}\n{said.err}"


def _names(columns: str) -> list[str]:
    return [column.split()[0] for column in columns.split(", ")]


def _split(columns: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth = [""], 0
    for character in columns:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _make(node: Node, table: str, case: Case, made: Sequence[str] = ()) -> None:
    statements = [*(made or [f"CREATE TABLE {{t}} ({case.columns})"])]
    if isinstance(node.server, Postgres):
        statements.append("ALTER TABLE {t} REPLICA IDENTITY FULL")
        statements += [f"ALTER TABLE {{t}} ALTER {case.outside} SET STORAGE EXTERNAL"] if case.outside else []
    node.send(*(statement.format(t=table) for statement in statements))


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Callable[..., Network]]:
    made: list[Network] = []

    def make(servers: Mapping[str, Server], *edges: str) -> Network:
        made.append(Network(tmp_path, servers, edges))
        return made[-1]

    yield make
    for one in made:
        with contextlib.suppress(Exception):
            one.close()


@pytest.mark.parametrize(("eu", "us"), PAIRS)
def test_cases_of_peers(eu: str, us: str, request: pytest.FixtureRequest, network: Callable[..., Network]) -> None:
    peers = Peers(network({"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}, "eu>us", "us>eu"))
    peers.play()
    for table, case, policy in peers.cases:
        end = case.ends[policy]
        wanted = [tuple(map(str, row)) for row in end.rows]
        assert (peers.rows(peers.arbiter, table, case), peers.told(table)) == (wanted, sorted(end.told)), (table, case)
        assert peers.rows(peers.spoke, table, case) == wanted, (table, case)


HUGE = 20_000
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "conflicts-of-peers.md"


def test_each_case_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in CASES if f"| {name} |" not in page] == []


@PROOF
@pytest.mark.parametrize(("eu", "us"), PAIRS[:3])
def test_a_huge_transaction_of_which_one_row_is_in_conflict(
    eu: str, us: str, request: pytest.FixtureRequest, network: Callable[..., Network]
) -> None:
    """Spock huge_tx, with fewer rows."""
    both = network({"eu": request.getfixturevalue(eu), "us": request.getfixturevalue(us)}, "eu>us", "us>eu")
    arbiter, spoke = both.nodes.values()
    for feed in both.feeds.values():
        feed.options |= {"conflicts": {"arbiter": "eu", "default": "arrival"}, "journal": ""}
    catch_up(both)
    arbiter.send(f"INSERT INTO note VALUES ({HUGE // 2}, 'h', 0)")
    rows = ", ".join(f"({n}, 'data', {n})" for n in range(HUGE))
    spoke.send("BEGIN", f"INSERT INTO note VALUES {rows}", "COMMIT")
    catch_up(both)
    wanted = [(str(n), "data", str(n)) for n in range(HUGE)]
    assert arbiter.notes() == spoke.notes() == wanted
    kept = arbiter.rows(f"SELECT type, row_key FROM {both.books}.tidelock_conflicts")
    assert kept == [("insert_exists", f"id={HUGE // 2}")]


# A table's columns, and a statement that gives it what no arbiter takes.
UNFIT = {
    "partly": ("a int PRIMARY KEY, b int, c boolean", "CREATE UNIQUE INDEX ON partly (b) WHERE c"),
    "alike": ("a int PRIMARY KEY, b int", "CREATE UNIQUE INDEX ON alike (b) NULLS NOT DISTINCT"),
    "keyless": ("a int, b int", "ALTER TABLE keyless ALTER a SET NOT NULL"),
}


def test_tables_that_an_arbiter_does_not_take(
    postgres_source: Postgres, postgres: Postgres, network: Callable[..., Network]
) -> None:
    """Spock takes such unique indexes (conflict_secondary_unique), and PostgreSQL tables without a key (035)."""
    both = network({"eu": postgres_source, "us": postgres}, "eu>us", "us>eu")
    for node in both.nodes.values():
        for table, (columns, statement) in UNFIT.items():
            node.send(f"CREATE TABLE {table} ({columns})", statement, f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    feed = both.feeds["eu>us"]
    feed.options |= {"conflicts": {"arbiter": "eu"}, "journal": ""}
    said = feed.command("check")
    refused = [line for line in said.out.splitlines() if line.startswith("error")]
    assert said.code == 1 and [[table for table in UNFIT if f".{table} " in f"{line} "] for line in refused] == [
        ["alike"], ["keyless"], ["partly"]
    ], said.out  # fmt: skip
