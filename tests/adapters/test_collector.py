"""Memory of processes that move rows: told in a process of its own, since the settings are the process's."""

import subprocess
import sys

MACHINE = """
import gc, weakref
from tidelock.adapters.process.gc_tuning import calm, forget
from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.protocol.events import TakenOver
from tidelock.engine.model.records import Position

class Ring:
    def __init__(self):
        self.ring = self

calm()
gc.disable()
machine = ApplyMachine(Options())
machine.step(0, [TakenOver(1, Position("binlog.1", 4, 0, ""), tables={}, log_end=None)])
gone = [weakref.ref(machine), weakref.ref(machine.pipeline), weakref.ref(machine.batches)]
del machine
assert not any(ref() for ref in gone), "a part refers to itself"
gone = weakref.ref(Ring())
assert gone() is not None
forget()
assert gone() is None, "what runs leave behind in rings"
"""

BUFFERS = """
from tidelock.adapters.process.gc_tuning import calm

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

calm()
bytearray(b"x") * (8 << 20)  # freed at once: what glibc learns from
kept, before = [], resident_mb()
for _ in range(3):
    large = []
    for _ in range(8):
        large.append(bytearray(b"x") * (8 << 20))
        kept.append(bytearray(2000))
    assert resident_mb() - before > 60
    large.clear()
assert resident_mb() - before < 8, resident_mb() - before
"""


def run(program: str) -> None:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_machine_that_is_over_is_forgotten() -> None:
    run(MACHINE)


def test_large_buffers_go_back_to_the_system() -> None:
    run(BUFFERS)
