"""The campaign's own plumbing, with trials that need no world."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidelock.simulations import campaign
from tidelock.simulations.campaign import Died, Failure, Tally
from tidelock.simulations.plan import draw
from tidelock.simulations.trial import Trial

ROOT = Path(__file__).parents[2]
PLAN = draw(1)


def thirteenth(seed: int) -> Trial:
    """Every thirteenth seed fails."""
    mistake = "" if seed % 13 else f"bad {seed}"
    return Trial(PLAN, mistake, faults=seed, changes=2 * seed, coverage={"even": seed % 2 == 0, "all": 1})


def deadly(seed: int) -> Trial:
    if seed == 27:
        os.kill(os.getpid(), signal.SIGKILL)
    return thirteenth(seed)


def endless(marks: str, seed: int) -> Trial:
    """Leaves a file with its process number that holds the signals which it does not hear."""
    deaf = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    begun = Path(marks) / f"{os.getpid()}.begun"
    begun.write_text(str(sorted(deaf)))
    begun.rename(begun.with_suffix(""))  # whole from the moment that it has its name
    time.sleep(600)
    return thirteenth(seed)


@pytest.mark.parametrize("jobs", [1, 3])
def test_sums_do_not_depend_on_who_ran_what(jobs: int) -> None:
    heard: list[int] = []
    tally = campaign.run(thirteenth, 10, 45, jobs=jobs, chunk=10, told=lambda t: heard.append(t.runs))
    seeds = range(10, 55)
    assert (tally.runs, tally.failed) == (45, 4)
    assert tally.failures == [Failure(s, f"bad {s}") for s in (13, 26, 39, 52)]
    assert (tally.faults, tally.changes) == (sum(seeds), 2 * sum(seeds))
    assert (tally.fewest_faults, tally.fewest_changes) == (10, 20)
    assert tally.coverage == {"even": 23, "all": 45}
    assert tally.digest == sum(thirteenth(s).digest for s in seeds) % 2**64
    assert tally.seconds > 0
    assert len(heard) == 5 and heard[-1] == 45 and heard == sorted(heard)


def test_the_first_failure_can_end_it() -> None:
    tally = campaign.run(thirteenth, 1, 100, chunk=5, first_failure=True)
    assert (tally.runs, tally.failures) == (15, [Failure(13, "bad 13")])


def test_no_seeds_make_an_empty_tally() -> None:
    assert campaign.run(thirteenth, 5, 0, jobs=2) == Tally()


def test_a_worker_that_dies_is_told_with_its_seeds() -> None:
    with pytest.raises(Died, match="seeds 20 to 29 ended with code -9"):
        campaign.run(deadly, 0, 100, jobs=2, chunk=10)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_leaves_no_worker(how: signal.Signals, tmp_path: Path) -> None:
    """The signal goes to the whole group, as Ctrl-C does."""
    code = (
        "import functools, signal\n"
        "from simulations import campaign\n"
        "from tests.simulations.test_campaign import endless\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGTERM, stop)\n"
        "    signal.signal(signal.SIGINT, stop)  # a job in the background inherits that it is ignored\n"
        f"    campaign.run(functools.partial(endless, {str(tmp_path)!r}), 0, 4, jobs=2, chunk=1)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    with (
        subprocess.Popen(
            [sys.executable, script],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        deadline = time.monotonic() + 60
        while len(workers := [p for p in tmp_path.iterdir() if p.name.isdigit()]) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, how)
        _, errors = process.communicate(timeout=60)
    assert errors.count(b"Traceback") == 1
    for worker in workers:
        assert worker.read_text() == str([signal.SIGINT, signal.SIGTERM])
        with pytest.raises(ProcessLookupError):
            os.kill(int(worker.name), 0)


def test_the_digest_sees_every_line() -> None:
    trials = [
        Trial(PLAN, transcript=["a", "b"]),
        Trial(PLAN, transcript=["b", "a"]),
        Trial(PLAN, "a", transcript=["b"]),
        Trial(draw(2), transcript=["a", "b"]),
    ]
    assert len({trial.digest for trial in trials}) == 4
