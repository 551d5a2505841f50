"""`tidelock verify` as an operator runs it: exit codes, reports, messages, and that it leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import Server

DIFFERENT = 3
COMMAND_SECONDS = 240


def test_the_command_writes_its_reports_and_exits_3(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "verify")
    rig.table("t", "id int PRIMARY KEY, v varchar(40)")
    rig.at_source("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    rig.catch_up()
    rig.at_target(f"DELETE FROM {rig.schema}.t WHERE id = 2")
    report, html = tmp_path / "report.json", tmp_path / "report.html"
    done = command("verify", str(rig.feed), "--json", "--report", str(report), "--html", str(html))
    assert (done.returncode, done.stderr) == (DIFFERENT, "")
    assert json.loads(done.stdout) == json.loads(report.read_text())
    (table,) = json.loads(done.stdout)["tables"]
    assert (table["matched"], table["missing"], table["differences"][0]["key"]) == (1, 1, {"id": "2"})
    assert "1 row differs" in html.read_text()
    assert {path.stat().st_mode & 0o777 for path in (report, html)} == {0o600}


def command(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = tidelock(*words, environment=environment, seconds=COMMAND_SECONDS)
    return subprocess.CompletedProcess(words, done.code, done.out, done.err)


def test_a_table_that_the_target_lacks_is_named(make_rig: Callable[..., Rig], mariadb: Server, mysql: Server) -> None:
    rig = make_rig(mariadb, mysql, "verify")
    rig.at_source("CREATE TABLE lonely (id int PRIMARY KEY)")
    done = command("verify", str(rig.feed))
    assert done.returncode == 1
    assert f"the target has no table {rig.schema}.lonely" in done.stderr
    assert "init --apply" in done.stderr


def test_small_tables_need_no_spark_and_rows_that_one_end_lacks_are_shown_so(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """A row that is not there is no row of NULLs, also where its other columns are NULL.  There is no Java here."""
    rig = make_rig(mariadb, postgres, "verify")
    rig.table("t", "id int PRIMARY KEY, v varchar(40)")
    rig.table("plain", "v varchar(40)")
    rig.at_source("INSERT INTO t SELECT seq, concat('v', seq) FROM seq_1_to_20", "INSERT INTO t VALUES (30, NULL)")
    rig.at_source("INSERT INTO plain VALUES ('a'), ('a'), ('a')")
    rig.catch_up()
    rig.at_target(f"DELETE FROM {rig.schema}.t WHERE id IN (3, 30)", f"INSERT INTO {rig.schema}.t VALUES (40, 'more')")
    rig.at_target(f"INSERT INTO {rig.schema}.plain VALUES ('a')")
    html = tmp_path / "report.html"
    done = command("verify", str(rig.feed), "--html", str(html), environment={"JAVA_HOME": "/nowhere"})
    assert (done.returncode, done.stderr) == (DIFFERENT, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["missing", "id=3", "v", "'v3'", "no", "row"] in lines, done.stdout
    assert ["missing", "id=30", "a", "row", "no", "row"] in lines
    assert ["extra", "id=40", "v", "no", "row", "'more'"] in lines
    assert ["extra", "1", "row", "fewer", "a", "row"] in lines
    assert "NULL" not in done.stdout and "NULL" not in html.read_text()
    assert html.read_text().count("<i>no row</i>") == 3


def test_without_java_it_says_what_to_do(make_rig: Callable[..., Rig], mysql: Server, postgres: Server) -> None:
    rig = make_rig(mysql, postgres, "verify", spark={"small_rows": 0})
    rig.table("t", "id int PRIMARY KEY")
    done = command("verify", str(rig.feed), environment={"JAVA_HOME": "/nowhere"})
    assert done.returncode == 1
    assert "JAVA_HOME is /nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_drivers_it_says_what_gets_them(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mysql, postgres, "verify", spark={"small_rows": 0})
    rig.table("t", "id int PRIMARY KEY")
    done = command("verify", str(rig.feed), environment={"TIDELOCK_CACHE": str(tmp_path)})
    assert done.returncode == 1
    assert f"JDBC drivers not found in {tmp_path}" in done.stderr
    assert "make servers" in done.stderr


@pytest.mark.proof
def test_a_termination_ends_java_and_leaves_no_folder(
    make_rig: Callable[..., Rig], mysql: Server, postgres: Server, tmp_path: Path
) -> None:
    """Also: neither the password nor a setting is on any command line, and Spark says nothing."""
    settings = {"spark.hadoop.test.secret": "hush-4711"}
    rig = make_rig(mysql, postgres, "verify", spark={"small_rows": 0, "settings": settings})
    rig.table("t", "id int PRIMARY KEY")
    rig.at_source("INSERT INTO t VALUES (1)")
    rig.catch_up()
    rig.at_source("INSERT INTO t VALUES (2)")  # which is waited for
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    (tmp_path / f"tidelock-spark-{2**30}-killed").mkdir()  # no process has such a number
    words = [sys.executable, "-m", "tidelock", "verify", str(rig.feed), "--wait", "200"]
    log = tmp_path / "said"
    with log.open("wb") as said:
        process = subprocess.Popen(words, stdout=said, stderr=said, env=environment)
        try:
            until(lambda: "waiting" in log.read_text() or process.poll() is not None, "a wait", COMMAND_SECONDS)
            assert process.poll() is None, log.read_text()
            java = [pid for pid in children(process.pid) if "java" in command_line(pid)]
            assert java
            assert not any("hush-4711" in command_line(pid) for pid in [process.pid, *children(process.pid)])
            folders = list(tmp_path.glob("tidelock-spark-*"))
            assert len(folders) == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
        finally:
            process.kill()
            process.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in java), "Java's end")
    assert not folders[0].exists()
    said = [line.removeprefix(f"{rig.name}: ") for line in log.read_text().splitlines()]
    steps = {"starting Spark", f"reading {rig.schema}.t, about 2 rows", f"rechecking {rig.schema}.t"}
    assert set(said[:-1]) <= steps | {line for line in said if line.startswith("… ")}
    assert said[-1].startswith(("waiting for the feed to pass ", "… waiting for")), said


def children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
