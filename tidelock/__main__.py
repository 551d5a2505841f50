"""`python -m tidelock`: the command `tidelock`."""

from tidelock.adapters.cli import main

main()
