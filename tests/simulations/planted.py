"""Plants a bug of `simulations.mutants.tested` and runs the test that is to notice it: `python planted.py NAME`.

A process of its own: what is planted must not have been imported.  It exits with pytest's exit code, 1 where it failed.
"""

import sys

import pytest

from tidelock.simulations.mutants.planting import plant
from tidelock.simulations.mutants.tested import TESTED


def main(name: str) -> int:
    (tested,) = (one for one in TESTED if one.mutant.name == name)
    plant(tested.mutant)
    return int(pytest.main(["-n", "0", "-x", "-q", "-m", "", "-p", "no:cacheprovider", tested.test]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
