#!/bin/bash
# What runs the product: Python, an init that passes signals on and buries children, and a user of a fixed number.
# More Debian packages may be named: runtime.sh [PACKAGE…]
set -euo pipefail
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ca-certificates python3 tini "$@"
rm -rf /var/lib/apt/lists/*
groupadd --gid 10001 tidelock
useradd --uid 10001 --gid 10001 --no-log-init --create-home --shell /usr/sbin/nologin tidelock
