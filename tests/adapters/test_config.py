"""The YAML of a feed: what it means, and what an operator reads when it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tidelock.adapters.config import feed as config
from tidelock.adapters.config.apply_options import options_of
from tidelock.adapters.config.feed import ConfigError, Feed
from tidelock.adapters.config.loader import load
from tidelock.engine.model.conflict_options import CommitClock
from tidelock.engine.model.records import Position, TableName

Read: TypeAlias = Callable[[str], Feed]

PLAIN = """\
feed: shop
source: mysql://repl:secret-a@db1
target: postgresql://tide:secret-b@db2/shop
tables:
  - source: shop.account
"""
OF_HIVE = PLAIN.replace("postgresql://tide:secret-b@db2/shop", "hive:///lake")
OF_POSTGRES = PLAIN.replace("mysql://repl:secret-a@db1", "postgresql://repl:secret-a@db1/shop")


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_load(text: str) -> Feed:
        path = tmp_path / "shop.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return write_and_load


def test_defaults(read: Read) -> None:
    feed = read(PLAIN)
    assert (feed.lanes, feed.batch_rows, feed.verify, feed.consistency, feed.schema) == (
        8,
        0,
        "off",
        "row",
        "tidelock",
    )
    assert (feed.source_url.host, feed.source_url.port, feed.source_url.user) == ("db1", 3306, "repl")
    assert (feed.target_url.dialect, feed.target_url.port, feed.target_url.database) == ("postgres", 5432, "shop")
    assert feed.start_place == "now"
    assert feed.http_address is None
    assert feed.synchronous_commit is False


def test_workers_may_begin_with_a_copy_and_keep_journals(read: Read) -> None:
    feed = read(PLAIN + "log: kafka://h\nstart: copy\njournal: a\n")
    assert (feed.start, feed.journal, feed.log_url is not None) == ("copy", "a", True)


def test_a_feed_that_begins_with_a_copy_begins_now(read: Read) -> None:
    feed = read(PLAIN + "start: copy\ncopy: {existing: keep, chunk_rows: 1000}\n")
    assert (feed.start, feed.start_place) == ("copy", "now")
    assert (feed.copy.existing, feed.copy.chunk_rows) == ("keep", 1000)
    assert read(PLAIN).copy.existing == "refuse"


def test_server_id_is_stable_positive_and_differs_by_feed(read: Read) -> None:
    first, second = read(PLAIN), read(PLAIN.replace("feed: shop", "feed: shop2"))
    assert first.server_id == config.derived_server_id("shop") == 1818905762
    assert 0 < second.server_id < 2**32
    assert second.server_id != first.server_id
    assert read(PLAIN + "server_id: 7\n").server_id == 7


def test_passwords_are_never_shown(read: Read) -> None:
    feed = read(PLAIN)
    for text in (repr(feed), str(feed), str(feed.source_url), f"{feed.target_url!r}"):
        assert "secret-" not in text
    assert "***" in repr(feed)
    assert feed.source_url.password == "secret-a"


@pytest.mark.parametrize("secret", ["plain", "p@ss:w/ord?#%41&${env:X}", "ünï"])
def test_secrets_are_taken_as_they_are(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    (tmp_path / "pw").write_text(secret + "\n", encoding="utf-8")
    monkeypatch.setenv("TIDE_PW", secret)
    text = PLAIN.replace("secret-a", "${file:pw}").replace("secret-b", "${env:TIDE_PW}")
    feed = read(text)
    assert (feed.source_url.password, feed.target_url.password) == (secret, secret)
    assert feed.source_url.host == "db1"


def test_a_whole_url_may_be_the_secret(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_URL", "mariadb://u:p%40q@[::1]:3307/x?sslmode=disable")
    url = read(PLAIN.replace("mysql://repl:secret-a@db1", "${env:SOURCE_URL}")).source_url
    assert (url.scheme, url.host, url.port, url.password, url.database) == ("mariadb", "::1", 3307, "p@q", "x")
    assert url.ssl_context() is None


def test_the_source_s_own_log_is_the_log_unless_kafka_is(read: Read) -> None:
    assert read(PLAIN).log_url is None
    assert read(PLAIN + "log: embedded\n").log_url is None
    feed = read(PLAIN + "log: kafka://k1,k2:9093,[::1]:9094/\npartitions: 3\n")
    assert feed.log_url is not None
    assert feed.log_url.servers == ("k1:9092", "k2:9093", "[::1]:9094")
    assert feed.partitions == 3
    assert feed.log_url.ssl_context() is None
    assert "kafka://k1:9092,k2:9093,[::1]:9094/" in repr(feed)
    assert read(PLAIN + "log: kafka://k1\nconsistency: transaction\npartitions: 1\n").partitions == 1


@pytest.mark.parametrize("secret", ["plain", "p@ss:w/ord?#%41&,${env:X}"])
def test_the_password_of_kafka_is_taken_as_it_is_and_never_shown(read: Read, tmp_path: Path, secret: str) -> None:
    (tmp_path / "pw").write_text(secret)
    url = read(PLAIN + "log: kafka://u:${file:pw}@k1:1,k2:2/?sasl=scram-sha-512&sslmode=require\n").log_url
    assert url is not None
    assert (url.user, url.password, url.servers) == ("u", secret, ("k1:1", "k2:2"))
    assert secret not in repr(url)
    assert "u:***@k1:1,k2:2" in str(url)


def test_kafka_is_encrypted_and_checked_where_the_authority_is_named(read: Read, tmp_path: Path) -> None:
    url = read(PLAIN + "log: kafka://k1/?sslrootcert=ca.pem\n").log_url
    assert url is not None
    assert (url.ssl_mode, url.options["sslrootcert"]) == ("verify-full", str(tmp_path / "ca.pem"))


def test_yaml_does_not_guess(read: Read) -> None:
    feed = read(PLAIN.replace("feed: shop", "feed: 123") + "verify: off\nzero_dates: null\nlanes: 3\n")
    assert (feed.name, feed.verify, feed.zero_dates, feed.lanes) == ("123", "off", "null", 3)


@pytest.mark.parametrize(
    ("start", "place"),
    [
        ("earliest", "earliest"),
        ("bin.000007:4", Position("bin.000007", 4)),
        ("gtid:0-1-5,1-2-9", Position("", 0, gtids="0-1-5,1-2-9")),
        (
            "gtid:3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
            Position("", 0, gtids="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"),
        ),
    ],
)
def test_start(read: Read, start: str, place: str | Position) -> None:
    assert read(PLAIN + f"start: {start}\n").start_place == place


@pytest.mark.parametrize(
    ("start", "place"), [("earliest", "earliest"), ("16/B3748a0", Position("", 0x16_0B37_48A0)), ("copy", "now")]
)
def test_start_at_postgres(read: Read, start: str, place: str | Position) -> None:
    feed = read(OF_POSTGRES + f"start: {start}\n")
    assert (feed.start_place, feed.starts_where_kept) == (place, start != "copy")


WRONG = {
    "unknown key": (PLAIN + "lane: 4\n", "lane", 6, "did you mean 'lanes'?"),
    "unknown key of a table": (PLAIN + "    wher: a = 1\n", "tables[0].wher", 6, "did you mean 'where'?"),
    "unknown key of columns": (PLAIN + "    columns: {exlude: [a]}\n", "tables[0].columns.exlude", 6, "'exclude'"),
    "key twice": (PLAIN + "feed: other\n", "", 6, "written twice"),
    "missing key": (PLAIN.replace("feed: shop\n", ""), "feed", 0, "missing"),
    "missing key of a table": (PLAIN + "  - target: a.b\n", "tables[1].source", 6, "missing"),
    "no tables": (PLAIN.partition("tables")[0] + "tables: []\n", "tables", 4, "length"),
    "not a number": (PLAIN + "lanes: many\n", "lanes", 6, "not 'many'"),
    "too many lanes": (PLAIN + "lanes: 65\n", "lanes", 6, "<= 64"),
    "no lanes": (PLAIN + "lanes: 0\n", "lanes", 6, ">= 1"),
    "a word for a choice": (PLAIN + "consistency: transactions\n", "consistency", 6, "did you mean 'transaction'?"),
    "not a bool": (PLAIN + "synchronous_commit: off\n", "synchronous_commit", 6, "true or false"),
    "feed name": (PLAIN.replace("feed: shop", "feed: Shop"), "feed", 1, "a-z"),
    "no version column": (PLAIN + "verify: version\n", "tables[0]", 5, "`version: COLUMN`"),
    "an older row that replaces": (
        PLAIN + "    version: a\nverify: version\non_conflict: replace\n", "on_conflict", 8, "does not go with"
    ),
    "a version that nothing asks for": (PLAIN + "    version: a\n", "tables[0].version", 6, "`verify: version`"),
    "rows that Hive does not look at": (OF_HIVE + "verify: image\n", "verify", 6, "use off"),
    "a log that is no Kafka": (PLAIN + "log: mysql://u:p@h\n", "log", 6, "kafka://host:port"),
    "a log that is no URL": (PLAIN + "log: disk\n", "log", 6, "embedded"),
    "a login without its kind": (PLAIN + "log: kafka://u:secret-c@h\n", "log", 6, "?sasl=plain|scram"),
    "a kind of login without a user": (PLAIN + "log: kafka://h/?sasl=plain\n", "log", 6, "go together"),
    "a kind of login without a password": (PLAIN + "log: kafka://u@h/?sasl=plain\n", "log", 6, "go together"),
    "an unknown kind of login": (PLAIN + "log: kafka://u:secret-c@h/?sasl=gssapi\n", "log", 6, "scram-sha-512"),
    "encrypted if Kafka likes": (PLAIN + "log: kafka://h/?sslmode=prefer\n", "log", 6, "either"),
    "a database of Kafka": (PLAIN + "log: kafka://h/topic\n", "log", 6, "no database"),
    "a port of the second broker": (PLAIN + "log: kafka://h:1,i:99999\n", "log", 6, "65535"),
    "a login of a database": (PLAIN.replace("@db1", "@db1/?sasl=plain"), "source", 2, "known: sslmode, sslrootcert"),
    "several databases": (PLAIN.replace("@db1", "@db1,db3:1"), "source", 2, "only kafka://"),
    "a site with a capital": (PLAIN + "sites: {source: EU, target: us}\n", "sites.source", 6, "EU"),
    "one site": (PLAIN + "sites: {source: eu, target: eu}\n", "sites.target", 6, "one name"),
    "a site alone": (PLAIN + "sites: {source: eu}\n", "sites.target", 6, "missing"),
    "its own sister": (PLAIN + "sites: {source: a, target: b, sister: shop}\n", "sites.sister", 6, "other way"),
    "rows that wait at a spoke": (
        PLAIN + "sites: {source: a, target: b, sister: c}\nconflicts: {arbiter: a, hold: true}\n",
        "conflicts.hold",
        7,
        "unknown key",
    ),
    "rows that are looked up": (
        PLAIN + "sites: {source: a, target: b, sister: c}\nconflicts: {arbiter: a, look_up: {lag: 60s}}\n",
        "conflicts.look_up",
        7,
        "unknown key",
    ),
    "sites over Kafka": (PLAIN + "log: kafka://h\nsites: {source: a, target: b}\n", "sites", 7, "embedded"),
    "an unknown key of sites": (PLAIN + "sites: {source: a, target: b, foward: own}\n", "sites.foward", 6, "forward"),
    "partitions of the source's log": (PLAIN + "partitions: 2\n", "partitions", 6, "log in Kafka"),
    "too many partitions": (PLAIN + "log: kafka://h\npartitions: 257\n", "partitions", 7, "<= 256"),
    "source order over partitions": (
        PLAIN + "log: kafka://h\nconsistency: transaction\npartitions: 2\n",
        "partitions",
        8,
        "one group",
    ),
    "an unknown word of copy": (PLAIN + "copy: {chunk: 5}\n", "copy.chunk", 6, "chunk_rows"),
    "kafka target later": (PLAIN.replace("postgresql://tide:secret-b@db2/shop", "kafka://h:9092"), "target", 3, "yet"),
    "no database of a postgres source": (OF_POSTGRES.replace("@db1/shop", "@db1"), "source", 2, "names its database"),
    "postgres source from a place": (OF_POSTGRES + "start: log.000001:4\n", "start", 6, "an LSN such as"),
    "start": (PLAIN + "start: tomorrow\n", "start", 6, "FILE:OFFSET"),
    "http": (PLAIN + "http: 8470\n", "http", 6, "HOST:PORT"),
    "scheme": (PLAIN.replace("mysql://", "oracle://"), "source", 2, "unknown scheme"),
    "port": (PLAIN.replace("@db1", "@db1:99999"), "source", 2, "65535"),
    "url option": (PLAIN.replace("@db1", "@db1/?tls=on"), "source", 2, "sslmode"),
    "no database": (PLAIN.replace("@db2/shop", "@db2"), "target", 3, "names its database"),
    "table without database": (PLAIN.replace("shop.account", "account"), "tables[0].source", 5, "db.table"),
    "star only at the target": (PLAIN + "    target: public.*\n", "tables[0].target", 6, "no *"),
    "same rule twice": (PLAIN + "  - source: shop.account\n", "tables[1].source", 6, "rule already"),
    "include and exclude": (
        PLAIN + "    columns: {include: [a], exclude: [b]}\n",
        "tables[0].columns.exclude",
        6,
        "one of",
    ),
    "rename to one name": (
        PLAIN + "    columns: {rename: {a: c, b: c}}\n",
        "tables[0].columns.rename.b",
        6,
        "become c",
    ),
    "rename of an excluded column": (
        PLAIN + "    columns: {exclude: [a], rename: {a: c}}\n",
        "tables[0].columns.rename.a",
        6,
        "not among",
    ),
    "a filter that is no filter": (PLAIN + "    where: a = = 1\n", "tables[0].where", 6, "at character 5, near '='"),
    "a filter that computes": (
        PLAIN + "    where: b = 1 AND a + 1 > 3\n",
        "tables[0].where",
        6,
        "'a + 1' at character 11 is not a column",
    ),
    "a filter with an open quote": (PLAIN + "    where: a = 'x\n", "tables[0].where", 6, "a quote that is opened"),
    "a filter that calls": (PLAIN + "    where: now() > a\n", "tables[0].where", 6, "tables[0].where: "),
    "secret elsewhere": (PLAIN + "    where: a = '${env:X}'\n", "tables[0].where", 6, "only for source, target"),
    "secret not there": (PLAIN.replace("secret-a", "${env:TIDE_NOT_SET}"), "source", 2, "TIDE_NOT_SET is not set"),
    "secret file not there": (PLAIN.replace("secret-a", "${file:nope}"), "source", 2, "nope cannot be read"),
    "not YAML": (PLAIN + "tables: [\n", "", 7, "line 7"),
    "not a mapping": ("- a\n", "", 1, "keys and values"),
    "empty": ("", "feed", 0, "missing"),
    "a list for a word": (PLAIN + "http: [a]\n", "http", 6, "expected str"),
    "a table that is a word": (
        PLAIN.replace("- source: shop.account", "- shop.account"),
        "tables[0]",
        5,
        "keys and values",
    ),
    "an alias in itself": (PLAIN + "log: &a [*a]\n", "", 0, "contains itself"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong(read: Read, tmp_path: Path, case: str) -> None:
    text, key, line, words = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert (caught.value.key, caught.value.line) == (key, line)
    assert words in str(caught.value)
    assert str(tmp_path / "shop.yaml") in str(caught.value)
    assert "secret-" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_former_values_still_work_and_say_their_new_word(
    read: Read, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = read(PLAIN + "zero_dates: park\non_conflict: park\n")
    assert (feed.zero_dates, feed.on_conflict) == ("dead_letter", "dead_letter")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        f"tidelock: {tmp_path / 'shop.yaml'}, line {line}: {key}: 'park' is called 'dead_letter' now, "
        "and will be refused by the next release"
        for line, key in ((6, "zero_dates"), (7, "on_conflict"))
    ]


def test_words_of_today_say_nothing(read: Read, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(PLAIN + "zero_dates: dead_letter\n").zero_dates == "dead_letter"
    read(PLAIN.replace("source: shop.account", "source: park.park") + "zero_dates: 'null'\n")
    assert capsys.readouterr() == ("", "")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_the_first_rule_that_matches_wins(read: Read) -> None:
    feed = read(PLAIN + "    weight: 5\n  - source: shop.*\n  - source: arch*.log_*\n    target: old*.*_log\n")
    assert feed.select(TableName("shop", "account")).weight == 5
    assert feed.select(TableName("shop", "item")).weight == 0
    assert feed.select(TableName("Shop", "item")) is None
    assert feed.select(TableName("shopx", "item")) is None
    assert feed.target_name(TableName("arch2020", "log_a.b")) == TableName("old2020", "a.b_log")
    assert feed.target_name(TableName("shop", "item")) == TableName("shop", "item")
    assert feed.target_name(TableName("else", "where")) == TableName("else", "where")


def test_many_tables_to_one_and_odd_names(read: Read) -> None:
    feed = read(PLAIN.replace("shop.account", "'shard_*.a+b (c)'") + "    target: public.all\n")
    assert feed.target_name(TableName("shard_7", "a+b (c)")) == TableName("public", "all")
    assert feed.select(TableName("shard_7", "aab (c)")) is None


def test_secrets_in_sparks_settings(read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("s: 'x'\n")
    monkeypatch.setenv("TIDE_MEMORY", "2g")
    settings = "{spark.authenticate.secret: '${file:secret}', spark.executor.memory: '${env:TIDE_MEMORY}', spark.a: b}"
    feed = read(f"{PLAIN}spark:\n  settings: {settings}\n")
    assert feed.spark.settings == {
        "spark.authenticate.secret": "s: 'x'",
        "spark.executor.memory": "2g",
        "spark.a": "b",
    }
    with pytest.raises(ConfigError, match=r"spark\.settings.*nope cannot be read"):
        read(f"{PLAIN}spark:\n  settings: {{spark.a: '${{file:nope}}'}}\n")
    with pytest.raises(ConfigError, match=r"only for source, target, log and spark\.settings"):
        read(f"{PLAIN}spark:\n  memory: '${{file:secret}}'\n")


def test_a_postgres_source_carries_the_name_of_its_slot(read: Read) -> None:
    """One for each feed: a slot's name has no `-`, and 63 letters."""
    slots = [
        read(OF_POSTGRES.replace("feed: shop", f"feed: {name}")).source_url.options["slot"]
        for name in ("shop", "a-b", "a_b", "x" * 64)
    ]
    assert slots[0] == "tidelock_shop"
    assert len(set(slots)) == 4
    assert all(len(slot) <= 63 and slot.replace("_", "a").isalnum() for slot in slots)


PAIR = PLAIN + "sites: {source: us, target: eu, sister: shop-eu-us}\n"
TABLE = "  - source: shop.account\n"
LATEST = "conflicts: {arbiter: eu, default: latest}\n"
GROUPED = "    conflicts: {groups: [{columns: [a], policy: max}]}\n"
NO_TIME = "`latest` needs the column that tells which row is later, `conflicts: {version: COLUMN}`: "


def test_the_policies_of_conflicts_are_a_tables_then_the_feeds(read: Read) -> None:
    said = "conflicts: {arbiter: eu, default: arrival, types: {update_missing: delete wins}}\n"
    own = "    conflicts: {version: at, types: {update_missing: spoke}, groups: [{columns: [a, b], policy: delta}]}\n"
    others = "  - {source: b.*, conflicts: {default: latest, version: v}}\n"
    feed = read(PAIR.replace(TABLE, TABLE + own + others) + said)
    assert feed.conflicts is not None and feed.sites is not None
    assert feed.conflicts.direction(feed.sites) == "up"
    (one, other) = (feed.conflicts.of(rule.conflicts) for rule in feed.tables)
    assert (one.default, one.types, one.version) == ("arrival", {"update_missing": "spoke"}, "at")
    assert [(group.columns, group.policy) for group in one.groups] == [(("a", "b"), "delta")]
    assert (other.default, other.types) == ("latest", {})


def test_latest_compares_commits_where_both_ends_tell_their_times(read: Read) -> None:
    feed = read(PAIR + LATEST)
    options = options_of(feed, [TableName("shop", "account")])
    assert options.clock == CommitClock(spoke="us", arbiter="eu")
    assert [words.by_time for words in options.policies.values()] == [True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN + "conflicts: {arbiter: eu}\n", "line 6: conflicts: they are decided between sites"),
        (PAIR.replace(", sister: shop-eu-us", "") + "conflicts: {arbiter: eu}\n", "name the feed that goes the other"),
        (PAIR + "conflicts: {arbiter: asia}\n", "conflicts.arbiter: asia is neither us nor eu"),
        (PAIR + "conflicts: {default: stop}\n", "conflicts: say who decides: `arbiter: SITE`, or `stamp:"),
        (PAIR + "conflicts: {arbiter: eu, stamp: {}}\n", "conflicts: say who decides: `arbiter: SITE`, or `stamp:"),
        (PAIR + "conflicts: {stamp: {tme: t}}\n", "conflicts.stamp.tme: unknown key; did you mean 'time'?"),
        (PAIR + "conflicts: {stamp: {}}\ncopy: {existing: keep}\n", "copy.existing: rows with stamps are copied into"),
        (PAIR + "conflicts: {stamp: {}, default: delta}\n", "the greater stamp stays, whatever the conflict is"),
        (PAIR.replace(TABLE, TABLE + "    where: id > 1\n") + "conflicts: {stamp: {}}\n", "where: stamps compare"),
        (PAIR.replace(TABLE, TABLE + "    columns: {exclude: [a]}\n") + "conflicts: {stamp: {}}\n", "of whole rows"),
        (PAIR + "conflicts: {arbiter: eu, default: newest}\n", "'newest' is not known; use stop or arrival or"),
        (PAIR + "conflicts: {arbiter: eu, default: delta}\n", "`delta` is for columns, not for whole rows"),
        (PAIR + "conflicts: {arbiter: eu, types: {gone: stop}}\n", "conflicts.types.gone: 'gone' is not known; use"),
        (PAIR.replace("postgresql://", "mariadb://") + LATEST, f"{NO_TIME}MySQL and MariaDB do not tell when a row"),
        (PAIR.replace("mysql://", "mariadb://") + LATEST, f"{NO_TIME}MariaDB logs when a statement began"),
        (PAIR.replace(TABLE, TABLE + GROUPED) + LATEST, f"{NO_TIME}a commit's time is of the whole row"),
        (PAIR + "conflicts: {arbiter: eu}\nverify: image\n", "verify: a feed with `conflicts` looks at each row"),
        (PAIR + "conflicts: {arbiter: eu}\non_conflict: replace\n", "on_conflict: policies of `conflicts` say it"),
        (PAIR + "conflicts: {arbiter: eu}\nconsistency: transaction\n", "consistency: conflicts are decided row"),
        (PAIR.replace(TABLE, TABLE + "    conflicts: {version: a}\n"), "tables[0].conflicts: only a feed with"),
        (
            PAIR.replace(TABLE, TABLE + "    conflicts: {groups: [{columns: [a], policy: spok}]}\n")
            + "conflicts: {arbiter: eu}\n",
            "line 6: tables[0].conflicts.groups[0].policy: 'spok' is not known; use",
        ),
        (
            PAIR.replace(TABLE, TABLE + "    conflicts: {groups: [{columns: [a, a], policy: max}]}\n")
            + "conflicts: {arbiter: eu}\n",
            "tables[0].conflicts.groups[0].columns: a is in a group already",
        ),
    ],
)
def test_conflicts_that_cannot_be_decided_so_are_refused(read: Read, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert words in str(refused.value)
