FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements.lock pyproject.toml ./
RUN python -m venv /opt/tidelock \
 && /opt/tidelock/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock
COPY engine engine
COPY adapters adapters
COPY simulations simulations
COPY bench bench
RUN /opt/tidelock/bin/python -m adapters.compiled \
 && /opt/tidelock/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN useradd --system --create-home tidelock
COPY --from=build /opt/tidelock /opt/tidelock
USER tidelock
WORKDIR /home/tidelock
EXPOSE 8470
ENTRYPOINT ["/opt/tidelock/bin/tidelock"]
