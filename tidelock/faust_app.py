"""`faust -A tidelock.faust_app worker`: a worker of the feed whose YAML the variable TIDELOCK_FEED names.

TIDELOCK_WORKER names it, which also makes its membership static.  `tidelock worker FEED` is the same with our own
progress and exit codes.
"""

import os
import signal
import sys

from tidelock.adapters.config.feed import ConfigError
from tidelock.adapters.config.loader import load
from tidelock.adapters.workers.worker import Worker

try:
    worker = Worker(load(os.environ["TIDELOCK_FEED"]), os.environ.get("TIDELOCK_WORKER", ""))
except KeyError:
    sys.exit("TIDELOCK_FEED is not set: it names the feed's YAML file")
except ConfigError as error:
    sys.exit(str(error))
app = worker.app
if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # Faust ends in order for SIGTERM, and knows no SIGHUP
    signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
