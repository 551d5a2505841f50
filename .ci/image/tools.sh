#!/bin/bash
# What builds the product in an image: a C compiler, Python's headers, and pip.
set -euo pipefail
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
  ca-certificates gcc libc6-dev python3-dev python3-venv
rm -rf /var/lib/apt/lists/*
