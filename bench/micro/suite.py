"""All microbenchmarks by name, `group/what`, and the process that pyperf measures each of them in.

pyperf runs a benchmark in fresh processes (`python -m bench.micro.suite NAME …` starts one for each name), so that no
benchmark meets the memory, the caches and the collector of another.  In such a process a benchmark is warmed up once
and then called a few times; the least time is what the work costs, since noise only adds to it.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyperf

from bench.micro import decode, engine, logical_decode, text
from bench.micro.case import Case, Factory, cpu_seconds, held
from tidelock.adapters.process.gc_tuning import calm

CASES: Final[dict[str, Factory]] = {**decode.CASES, **logical_decode.CASES, **engine.CASES, **text.CASES}
MODULE: Final = "bench.micro.suite"
VALUES: Final = 5
_NONE: Final = Case(1, lambda _: None)


class Figure(msgspec.Struct, frozen=True):
    """`us`: CPU microseconds a row (a value, in `column`), the least of all values; `median_us`: their median.

    `octets`: bytes a row, of its message where the stage reads or writes one, else of the memory that is held at once.
    `rows_a_second`: on the clock, where a server was waited for.
    """

    name: str
    us: float
    median_us: float
    octets: float = 0.0
    rows_a_second: float | None = None

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


def measured(
    names: Sequence[str], values: int = VALUES, processes: int = 1, tree: Path | None = None
) -> list[Figure]:
    """Measure each benchmark `processes` times `values` times; `tree`: those of another checkout.  Raises
    CalledProcessError, which says why."""
    with tempfile.TemporaryDirectory(prefix="tidelock-micro-") as folder:
        path = Path(folder) / "suite.json"
        arguments = [f"--values={values}", f"--processes={processes}", "--quiet", f"--output={path}", *names]
        subprocess.run([sys.executable, "-m", MODULE, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=tree)
        return [_figure(found) for found in pyperf.BenchmarkSuite.load(str(path)).get_benchmarks()]


def _figure(found: pyperf.Benchmark) -> Figure:
    octets = float(found.get_metadata()["octets_a_row"])
    least, middle = min(found.get_values()), found.median()
    return Figure(found.get_name(), round(least * 1e6, 3), round(middle * 1e6, 3), round(octets, 1))


def main() -> None:
    runner = pyperf.Runner(loops=1, warmups=1, program_args=("-m", MODULE), add_cmdline_args=_pass_on)
    runner.argparser.add_argument("names", nargs="+", choices=CASES, metavar="NAME")
    options = runner.parse_args()
    for number, name in enumerate(options.names):
        # pyperf goes through all of them in every process, and measures one in each but the first.
        case = CASES[name]() if options.worker and options.worker_task == number else _NONE
        calm()
        runner.bench_time_func(
            name,
            functools.partial(cpu_seconds, case),
            inner_loops=case.rows,
            metadata={"octets_a_row": (case.octets or held(case)) / case.rows},
        )


def _pass_on(command: list[str], options: Namespace) -> None:
    command += options.names


if __name__ == "__main__":
    main()
