"""The files of `packages/`: units, manifests, a compose file, the man page and completions, held to the code."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.harness.servers.place import program
from tests.command_lines import refusal
from tidelock.adapters.cli.failure import CommandError
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.feed_file import load
from tidelock.adapters.fleet.supervisor import STOP_SECONDS
from tidelock.adapters.reference import manual

PACKAGES = Path(__file__).parents[1] / "packages"
UNITS = sorted(PACKAGES.glob("systemd/*.service"))
MANIFESTS = sorted(PACKAGES.glob("kubernetes/*.yaml"))


@pytest.mark.parametrize("name", manual.files())
def test_what_is_made_of_the_commands_is_current(name: str) -> None:
    told = "run `python -m tidelock.adapters.reference.manual`"
    assert (PACKAGES / name).read_text(encoding="utf-8") == manual.files()[name], told


@pytest.mark.proof
def test_a_man_page_is_read_without_a_warning() -> None:
    command = [str(program("groff", "groff-base")), "-Tutf8", "-P-cbou", "-man", "-ww", str(PACKAGES / "tidelock.1")]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stderr == ""
    assert "--until-caught-up" in done.stdout


def test_a_shell_is_told_what_may_follow() -> None:
    words = {"_TIDELOCK_COMPLETE": "complete_bash", "COMP_WORDS": "tidelock rows ", "COMP_CWORD": "2"}
    whole = os.environ | words
    command = [sys.executable, "-m", "tidelock"]
    done = subprocess.run(command, env=whole, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout.split() == ["list", "show", "retry", "skip", "take-source"]


def test_both_kinds_of_service_are_there() -> None:
    assert [unit.name for unit in UNITS] == ["tidelock-serve.service", "tidelock-worker@.service", "tidelock@.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_waits_for_what_the_process_tells(unit: Path) -> None:
    found = configparser.ConfigParser(interpolation=None, strict=True)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(unit)
    service = found["Service"]
    program, _, words = service["ExecStart"].partition(" ")
    assert program.endswith("/bin/tidelock")
    assert refusal(f"tidelock {words}", whole=True) == ""
    assert service["Type"] == "notify" and int(service["WatchdogSec"]) > 30
    assert (service["KillMode"], service["User"]) == ("mixed", "tidelock")
    assert int(service["TimeoutStopSec"]) > STOP_SECONDS
    codes = service["RestartPreventExitStatus"].split()
    assert str(CommandError("").exit_code) in codes
    assert ("4" in codes) == (unit.name == "tidelock@.service"), "only a run ends when it halts"


@pytest.mark.proof
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_has_nothing_to_say_of_a_unit(unit: Path, tmp_path: Path) -> None:
    there = tmp_path / unit.name.replace("@", "@shop")
    there.write_text(unit.read_text(encoding="utf-8").replace("/opt/tidelock/bin/tidelock", sys.executable))
    command = [str(program("systemd-analyze", "systemd")), "verify", "--man=no", str(there)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_kind(path: Path, *kinds: str) -> dict[str, Any]:
    (found,) = (one for one in documents(path) if one["kind"] in kinds)
    return found


def feed_of(text: str, folder: Path) -> Feed:
    """Reads a feed that stands in a manifest, whose secrets are files that only a pod has."""
    for name in ("source", "target"):
        (folder / name).write_text("secret")
    path = folder / "feed.yaml"
    path.write_text(text.replace("/secrets/", f"{folder}/"), encoding="utf-8")
    return load(path)


def feeds(path: Path, folder: Path) -> list[Feed]:
    return [feed_of(text, folder) for text in of_kind(path, "ConfigMap")["data"].values()]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_the_parts_of_a_manifest_fit(path: Path) -> None:
    work = of_kind(path, "StatefulSet", "Deployment")
    pod, labels = work["spec"]["template"]["spec"], work["spec"]["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert work["spec"]["selector"]["matchLabels"] == labels == of_kind(path, "Service")["spec"]["selector"]
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
    assert "/feeds" in mounted.values() and "/secrets" in mounted.values()
    maps = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    assert maps == [of_kind(path, "ConfigMap")["metadata"]["name"]]
    words = " ".join(container["args"])
    assert refusal(f"tidelock {words}", whole=True) == ""
    assert pod["terminationGracePeriodSeconds"] > STOP_SECONDS
    assert pod["securityContext"]["runAsUser"] == 10001, "the image's user"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_each_probe_asks_for_a_page_that_is_served(path: Path, tmp_path: Path) -> None:
    (container,) = of_kind(path, "StatefulSet", "Deployment")["spec"]["template"]["spec"]["containers"]
    serves = path.name == "serve.yaml"
    pages = {"/livez"} if serves else {"/livez", "/readyz"}
    (port,) = container["ports"]
    probes = {name: one["httpGet"] for name, one in container.items() if name.endswith("Probe")}
    assert {"livenessProbe", "readinessProbe"} <= set(probes)
    for probe in probes.values():
        assert probe["path"] in pages and probe["port"] == port["name"]
    assert probes["livenessProbe"]["path"] == "/livez", "a server that is away is no reason to be killed"
    given = container["args"][-1] if serves else feeds(path, tmp_path)[0].http
    assert given == f"0.0.0.0:{port['containerPort']}"
    assert not serves or "--token-file" in container["args"], "which `serve` asks for at such an address"


def test_each_feed_of_a_manifest_is_one_of_its_kind(tmp_path: Path) -> None:
    workers, serve = (feeds(PACKAGES / "kubernetes" / name, tmp_path) for name in ("workers.yaml", "serve.yaml"))
    assert [feed.log_url is not None for feed in (*workers, *serve)] == [True, False]
    work = of_kind(PACKAGES / "kubernetes/workers.yaml", "StatefulSet")
    (headless,) = (one for one in documents(PACKAGES / "kubernetes/workers.yaml") if one["kind"] == "Service")
    assert work["spec"]["serviceName"] == headless["metadata"]["name"] and headless["spec"]["clusterIP"] == "None"


def test_the_parts_of_the_compose_file_fit(tmp_path: Path) -> None:
    (found,) = documents(PACKAGES / "compose.yaml")
    services, configs = found["services"], found["configs"]
    feed = feed_of(configs["feed"]["content"], tmp_path)
    assert {feed.source_url.host, feed.target_url.host} == {"source", "target"} <= set(services)
    for one in services.values():
        assert all(named["source"] in configs for named in one.get("configs", ()))
        assert all(name.partition(":")[0] in found["volumes"] for name in one.get("volumes", ()))
        assert set(one.get("depends_on", ())) <= set(services)
        if one.get("build") is not None:
            assert (PACKAGES / one["build"] / "Dockerfile").is_file()
            assert refusal(f"tidelock {' '.join(one['command'])}", whole=True) == ""
            assert one["configs"][0]["target"] in one["command"]
    assert "--binlog-row-metadata=FULL" in services["source"]["command"]
