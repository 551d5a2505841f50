"""The control API does what its OpenAPI document says: schemathesis asks it, over a feed that runs under `serve`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.served import TOKEN, served
from bench.harness.servers import Server
from tidelock.adapters.api.openapi import document
from tidelock.adapters.api.routes import ROUTES

pytestmark = pytest.mark.proof
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".venv-api" / "bin" / "schemathesis"
EXAMPLES = 8
COSTLY_EXAMPLES = 3
"""Examples for a request that runs a command: it takes a second and more of a processor."""
SECONDS = 60.0
CONFIG = """\
headers = {{ Authorization = "Bearer {token}" }}
continue-on-failure = true
workers = 1
request-timeout = 120
max-stream-events = 1

[parameters]
"path.feed" = "{feed}"

[generation]
max-examples = {examples}
deterministic = true
database = "none"

[[operations]]
include-operation-id = {costly}

[operations.generation]
max-examples = {costly_examples}

[checks]
enabled = true

[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", "503"]
"""


def costly() -> list[str]:
    """Returns the ids of requests that run a command."""
    paths = document()["paths"]
    return [paths[route.path][route.method.lower()]["operationId"] for route in ROUTES if route.command]


@pytest.mark.timeout(3000)
def test_what_is_answered_is_what_the_document_says(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """No answer is a failure of the server's, each has a status, a type and a schema that the document names; what the
    document allows is taken, what it does not is refused."""
    assert PROGRAM.exists(), "`make proof` installs schemathesis into .venv-api"
    rig = make_rig(mariadb, postgres, "api", lanes=2)
    rig.table("t", "id int PRIMARY KEY, n int")
    with served(tmp_path, rig) as serving:
        api = serving.api(rig.name)
        rig.at_target("ALTER TABLE t ADD CHECK (n < 100)")
        rig.at_source("INSERT INTO t VALUES (1, 500), (2, 2)")
        until(lambda: api.failed_rows() == 1, "a failed row", SECONDS)
        config = tmp_path / "schemathesis.toml"
        config.write_text(
            CONFIG.format(
                token=TOKEN, feed=rig.name, examples=EXAMPLES, costly=costly(), costly_examples=COSTLY_EXAMPLES
            )
        )
        command = [str(PROGRAM), "--config-file", str(config), "run", f"{api.place}/openapi.json"]
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=2900, check=False
        )
        print(done.stdout)
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
