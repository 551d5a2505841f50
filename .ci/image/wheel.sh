#!/bin/bash
# The product's wheel, compiled, from the source tree SOURCE into the folder WHEELS: wheel.sh SOURCE WHEELS
# A module that cannot be compiled fails the build: an image has one form.
set -euo pipefail
here=$(dirname "$0")
python3 -m venv /opt/build
/opt/build/bin/pip install --quiet --no-cache-dir --require-hashes --no-deps --requirement "$here/build.lock"
TIDELOCK_COMPILED=required /opt/build/bin/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$2" "$1"
