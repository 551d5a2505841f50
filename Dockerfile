FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev maven && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/tidelock \
 && /opt/tidelock/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock
COPY engine engine
COPY adapters adapters
COPY simulations simulations
COPY bench bench
RUN /opt/tidelock/bin/python -m tidelock.adapters.compiled.build \
 && /opt/tidelock/bin/pip install --no-cache-dir --no-deps --no-build-isolation .
# The JDBC drivers of the bulk part (copy, verify, Hive), compared with their lock.
RUN TIDELOCK_CACHE=/opt/tidelock/cache /opt/tidelock/bin/python -m tidelock.adapters.spark.drivers

FROM python:3.11-slim
# Spark, which is among the Python packages, runs on Java.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*
RUN useradd --system --create-home tidelock
COPY --from=build /opt/tidelock /opt/tidelock
ENV TIDELOCK_CACHE=/opt/tidelock/cache
USER tidelock
WORKDIR /home/tidelock
EXPOSE 8470
ENTRYPOINT ["/opt/tidelock/bin/tidelock"]
