#!/bin/bash
# The JDBC drivers of the bulk part, fetched with Maven and compared with their lock, into $TIDELOCK_CACHE.
set -euo pipefail
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends default-jre-headless maven
rm -rf /var/lib/apt/lists/*
/opt/tidelock/bin/python -m tidelock.adapters.spark.drivers
