# docker build .                  a feed between MySQL, MariaDB and PostgreSQL, and workers over Kafka
# docker build --target bulk .    copy, verify, repair and Hive too: Spark, Java, JDBC drivers
#
# Each RUN is one script of .ci/image, and tests/test_image.py carries this file out in folders, on bare Debian.
ARG DEBIAN=debian:bookworm-20260918-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251

FROM ${DEBIAN} AS tools
COPY .ci/image /image
RUN /image/tools.sh
COPY pyproject.toml README.md LICENSE CHANGELOG.md /source/
COPY engine /source/engine
COPY adapters /source/adapters
COPY simulations /source/simulations
COPY tidelock /source/tidelock
RUN /image/wheel.sh /source /wheels

FROM tools AS slim-build
RUN /image/product.sh slim /wheels

FROM tools AS bulk-build
ENV TIDELOCK_CACHE=/opt/tidelock/cache
RUN /image/product.sh bulk /wheels
RUN /image/drivers.sh

FROM ${DEBIAN} AS bulk
COPY .ci/image/runtime.sh /image/
RUN /image/runtime.sh default-jre-headless
COPY --from=bulk-build /opt/tidelock /opt/tidelock
ENV PATH=/opt/tidelock/bin:/usr/local/bin:/usr/bin:/bin
ENV TIDELOCK_CACHE=/opt/tidelock/cache
USER 10001:10001
WORKDIR /home/tidelock
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/tidelock/bin/healthcheck"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/tidelock/bin/tidelock"]

FROM ${DEBIAN} AS slim
COPY .ci/image/runtime.sh /image/
RUN /image/runtime.sh
COPY --from=slim-build /opt/tidelock /opt/tidelock
ENV PATH=/opt/tidelock/bin:/usr/local/bin:/usr/bin:/bin
USER 10001:10001
WORKDIR /home/tidelock
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/tidelock/bin/healthcheck"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/tidelock/bin/tidelock"]
