#!/bin/bash
# /opt/tidelock: the wheel in WHEELS and what it needs, by the hashes of slim.lock or bulk.lock: product.sh PART WHEELS
set -euo pipefail
here=$(dirname "$0")
python3 -m venv --without-pip /opt/tidelock
pip=(/opt/build/bin/pip --python /opt/tidelock/bin/python install --quiet --no-cache-dir --no-deps)
"${pip[@]}" --require-hashes --requirement "$here/$1.lock"
"${pip[@]}" --no-index "$2"/tidelock-*.whl
install -m 755 "$here/healthcheck" /opt/tidelock/bin/
