"""`tidelock serve`: a folder of feeds, how each is kept running, and what is shown of all."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest
from rich.console import Console

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Process, metrics_page
from tidelock.adapters.fleet import supervisor
from tidelock.adapters.fleet.folder import FeedFile, Folder
from tidelock.adapters.fleet.member import STOPPED, Member
from tidelock.adapters.fleet.restarts import CALM_SECONDS, LONGEST_SECONDS, Restarts
from tidelock.adapters.fleet.screen import LineScreen, table
from tidelock.adapters.fleet.supervisor import STOP_SECONDS, kill_overdue

TEXT = "feed: {}\nsource: mysql://a:b@h:1\ntarget: postgresql://a:b@h:2/c\ntables: [{{source: crm.*}}]\n"
SECONDS = 60.0


def test_each_wait_is_longer_and_a_feed_that_needs_somebody_waits_for_them() -> None:
    policy = Restarts()
    assert [policy.after(1, 0.0) for _ in range(4)] == [1.0, 2.0, 4.0, 8.0]
    assert [policy.after(-9, 0.0) for _ in range(8)][-1] == LONGEST_SECONDS
    assert policy.after(4, 0.0) is None and policy.after(2, 0.0) is None
    assert policy.after(-9, CALM_SECONDS) == 1.0, "it has run for long"
    assert policy.after(0, 0.0) == 2.0


@pytest.mark.parametrize(
    ("fresh", "told", "looks"), [(True, [None, False], 3), (True, [True, False], 3), (False, [False, True, False], 4)]
)
def test_a_halt_is_over_where_none_is_found_though_it_was_ended_before_the_first_look(
    fresh: bool, told: list[bool | None], looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the same halt a feed is started again once: then somebody must have been seen to end it."""
    path, answers = tmp_path / "shop.yaml", iter([*told, False])
    path.write_text(TEXT.format("shop"))
    feed = Folder(tmp_path).look()[path].feed
    assert feed is not None
    monkeypatch.setattr(supervisor, "_halted", lambda _: next(answers))
    with ThreadPoolExecutor(1) as pool:
        watch = supervisor.HaltWatch(feed, pool, fresh=fresh)

        def over() -> bool:
            found = watch.over()
            pool.submit(int).result()  # what was asked has been answered
            return found

        assert [over() for _ in range(looks)] == [False] * (looks - 1) + [True]


def test_a_folder_is_read_anew_where_a_file_has_changed(tmp_path: Path) -> None:
    shop, crm = tmp_path / "shop.yaml", tmp_path / "crm.yml"
    for path, text in ((shop, TEXT.format("shop")), (crm, "feed: crm\n"), (tmp_path / ".hidden.yaml", "x")):
        path.write_text(text)
    (tmp_path / "notes.txt").write_text("nothing")
    folder = Folder(tmp_path)
    first = folder.look()
    assert [one.name for one in first.values()] == ["crm.yml", "shop"]
    assert "source: missing" in first[crm].problem
    crm.write_text(TEXT.format("crm"))
    second = folder.look()
    assert second[crm].name == "crm" and second[shop] is first[shop]
    shop.unlink()
    assert list(folder.look()) == [crm]


def test_two_files_of_one_feed_are_one_feed(tmp_path: Path) -> None:
    one, two = tmp_path / "a.yaml", tmp_path / "b.yaml"
    one.write_text(TEXT.format("shop"))
    two.write_text(TEXT.format("shop"))
    folder = Folder(tmp_path)
    found = folder.look()
    assert found[one].feed is not None and found[two].feed is None
    assert found[two].problem == f"{two}: the feed shop is in a.yaml already"
    one.unlink()
    feed = folder.look()[two].feed
    assert feed is not None and feed.name == "shop"


def test_what_is_no_file_is_told_and_keeps_nothing_from_being_read(tmp_path: Path) -> None:
    """A pipe is not opened, which would wait for its writer; a link to itself is no reason to see no other file."""
    shop, pipe, loop = tmp_path / "shop.yaml", tmp_path / "pipe.yaml", tmp_path / "loop.yaml"
    shop.write_text(TEXT.format("shop"))
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    (tmp_path / "folder.yaml").mkdir()
    found = Folder(tmp_path).look()
    assert found[shop].name == "shop" and found[pipe].problem == f"{pipe} is no file"
    assert found[loop].problem == f"{loop}: Too many levels of symbolic links"
    assert found[tmp_path / "folder.yaml"].problem == f"{tmp_path / 'folder.yaml'} is no file"


def member(tmp_path: Path) -> Member:
    path = tmp_path / "shop.yaml"
    path.write_text(TEXT.format("shop"))
    return Member(Folder(tmp_path).look()[path], tmp_path / "socket", lambda _, __: None, lambda _, __: None)


def test_a_member_takes_what_its_process_says(tmp_path: Path) -> None:
    one = member(tmp_path)
    assert one.hear('{"sample":{"state":"running","rows_total":7,"lag_seconds":0.5}}') == ""
    assert one.sample is not None and one.sample.rows_total == 7
    assert one.hear('{"error":"it halted"}') == "it halted" == one.words
    assert one.hear("Traceback: no JSON") == "Traceback: no JSON"
    shown = io.StringIO()
    Console(file=shown, width=150).print(table([one]))
    advice = f"started again once its halt is over or its file changes (`touch {tmp_path}/shop.yaml`)"
    assert one.end(4) == f"ended with exit code 4: {advice}"
    Console(file=shown, width=150).print(table([one]))
    text = shown.getvalue()
    assert "needs an operator" in text and "it halted" in text and one.sample is None
    assert one.end(-9) == "killed by signal 9: started again in 1 s" and one.state == "waits"


class Told:
    """A process that is told to end, and does when the test says so."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def start(self) -> None:
        self.told.append("start")

    def stop(self) -> None:
        self.told.append("stop")

    def kill(self) -> None:
        self.told.append("kill")


def test_what_an_operator_has_stopped_stays_so_until_it_is_started_or_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Told()
    monkeypatch.setattr("tidelock.adapters.fleet.member.CommandProcess", lambda *_: process)
    one = member(tmp_path)
    one.start()
    one.hold()
    assert (process.told, one.state) == (["start", "stop"], "ends")
    one.take_up()
    assert one.end(0) == "started anew" and (one.state, one.starts) == ("runs", 2), "it was wanted again meanwhile"
    one.hold()
    assert one.end(-15) == STOPPED == one.words and (one.state, one.due) == ("stopped", None)
    one.begin_anew()
    assert (one.state, one.words, one.starts) == ("runs", "", 3)
    assert one.code == -15, "of its last process that has ended, whatever begins anew"
    one.take_up()
    assert one.starts == 3 and process.told[-1] == "start", "what runs is left alone"
    one.begin_anew()
    one.hold()
    one.end(0)
    assert one.state == "stopped", "the last wish counts"
    changed = FeedFile(one.file.path, (1, 1, 1), one.file.feed)
    one.change(changed)
    assert (one.state, one.file) == ("runs", changed)
    newer = FeedFile(one.file.path, (2, 2, 2), one.file.feed)
    one.change(newer)
    one.hold()
    one.end(0)
    assert (one.state, one.file) == ("stopped", newer), "edited before it was stopped"
    one.begin_anew()
    one.begin_anew()
    one.stop()
    assert one.end(0) == "ended" and not one.running, "all ends, what was to begin anew too"


def test_nothing_comes_of_a_wish_that_nobody_waits_for_any_more(tmp_path: Path) -> None:
    """A request is given up while the supervisor is busy; the supervisor goes on, and so do all feeds."""
    path = tmp_path / "shop.yaml"
    path.write_text("feed: shop\n")  # it has no process that would have to end
    fleet = supervisor.Supervisor(tmp_path, LineScreen(io.StringIO()), terminal=False)
    given_up, kept = fleet.want(path, "stop"), fleet.want(path, "start")
    assert given_up.cancel()
    fleet.want(tmp_path / "none.yaml", "start").add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert fleet.run() == 0
    assert kept.result() and not fleet.members[path].held


def test_a_process_that_does_not_end_when_it_is_asked_to_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Told()
    monkeypatch.setattr("tidelock.adapters.fleet.member.CommandProcess", lambda *_: process)
    one = member(tmp_path)
    one.start()
    one.begin_anew()
    assert one.asked is not None
    kill_overdue([one], one.asked + STOP_SECONDS - 1.0)
    assert process.told == ["start", "stop"]
    kill_overdue([one], one.asked + STOP_SECONDS + 1.0)
    assert process.told == ["start", "stop", "kill"]


def test_a_file_that_is_no_feed_is_shown_and_not_run() -> None:
    file = FeedFile(Path("x.yaml"), (0, 0, 0), problem="x.yaml: no")
    one = Member(file, Path("s"), lambda _, __: None, lambda _, __: None)
    one.start()
    assert (one.running, one.state, one.words) == (False, "cannot be read", "x.yaml: no")


@pytest.fixture
def rigs(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> list[Rig]:
    made = [make_rig(mariadb, postgres, name, lanes=2) for name in ("one", "two")]
    for rig in made:
        rig.table("t", "id int PRIMARY KEY")
    return made


def read(address: str, path: str) -> bytes:
    with urlopen(f"http://{address}{path}", timeout=SECONDS) as answer:
        return bytes(answer.read())


def test_all_feeds_of_a_folder_run_and_end_with_it(rigs: list[Rig], tmp_path: Path) -> None:
    """A process that is killed and a halt that is over are started again; files come and go."""
    one, two = rigs
    one.options["ddl"] = {"add_column": "halt"}
    folder, said, address = tmp_path / "feeds", tmp_path / "said", f"127.0.0.1:{free_port()}"
    folder.mkdir()

    def put(rig: Rig) -> Path:
        return Path(shutil.copy(rig.feed, folder))

    def up(rig: Rig, state: str = "running") -> bool:
        return f'tidelock_state{{feed="{rig.name}",state="{state}"}} 1' in metrics_page(address)

    put(one)
    process = Process(["serve", str(folder), "--http", address], said)
    try:
        until(lambda: up(one), "the first feed", SECONDS)
        second = put(two)
        os.kill(process.pid, signal.SIGHUP)
        until(lambda: up(two), "the second feed", SECONDS)
        (run,) = [found["run"] for found in two.command("feeds", "@", "--json").json if found["feed"] == two.name]
        os.kill(run["pid"], signal.SIGKILL)
        until(lambda: "killed by signal 9: started again in 1 s" in said.read_text(), "the end", SECONDS)
        one.at_source("INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN n int")
        until(lambda: f"{one.name}: ended with exit code 4" in said.read_text(), "a halt", SECONDS)
        until(lambda: f'tidelock_feed_up{{feed="{one.name}"}} 0' in metrics_page(address), "it is down")
        until(lambda: up(two), "the second feed again", SECONDS)
        two.at_source("INSERT INTO t VALUES (5)")
        until(two.equal, "equal ends", SECONDS)
        lanes = json.loads(read(address, f"/api/v1/feeds/{two.name}/lanes"))["lanes"]
        assert [lane["lane"] for lane in lanes] == [0, 1]
        assert b"<title>Tidelock</title>" in read(address, "/")
        second.unlink()
        until(lambda: f"{two.name}: ended" in said.read_text().splitlines(), "the end of what is gone", SECONDS)
        assert two.name not in metrics_page(address)
        one.at_target("ALTER TABLE t ADD COLUMN n int")
        assert one.command("ddl", "done").code == 0
        until(lambda: up(one), "the feed whose halt is over", SECONDS)
        one.at_source("INSERT INTO t VALUES (2, 2)")
        until(one.equal, "equal ends", SECONDS)
    finally:
        process.stop()
    assert process.code(1.0) == 0, said.read_text()
    assert said.read_text().splitlines()[-1] == f"{one.name}: ended"


def test_a_serve_that_was_killed_leaves_no_folder_once_the_next_has_begun(tmp_path: Path) -> None:
    scratch, folder, said = tmp_path / "scratch", tmp_path / "feeds", tmp_path / "said"
    scratch.mkdir()
    folder.mkdir()

    def begun(former: Set[Path] = frozenset()) -> Process:
        address = f"127.0.0.1:{free_port()}"
        process = Process(
            ["serve", str(folder), "--http", address], said, environment={"TMPDIR": str(scratch)}
        )
        until(lambda: f"console at http://{address}/" in said.read_text(), "the console's address", SECONDS)
        until(lambda: kinds() == ["reports", "sockets"] and not former & folders(), "its folders alone", SECONDS)
        return process

    def folders() -> set[Path]:
        return {*scratch.glob("tidelock-*")}

    def kinds() -> list[str]:
        return sorted(one.name.split("-")[1] for one in folders())

    begun().kill()
    assert kinds() == ["reports", "sockets"], "nobody was there to remove them"
    begun(folders()).stop()
    assert kinds() == []
