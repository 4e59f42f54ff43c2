# Image of Botpool itself, which does not run as root. Bots have their own images (deploy/bot). It also
# holds the wrapper for them: COPY --from=botpool /opt/botpool/bin/botpool-agent /usr/local/bin/
FROM golang:1.26-bookworm@sha256:551752d3ad9de9923190bf5280500617ed8fee287ffb4b0220e770ef89346258 AS agent
WORKDIR /src
COPY pyproject.toml ./
COPY scripts/build-agent scripts/build-agent
COPY packages/agent-go packages/agent-go
RUN scripts/build-agent /botpool-agent

FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b AS build
WORKDIR /src
COPY requirements/run.txt requirements/run.txt
RUN python -m venv --without-pip /opt/botpool \
    && pip --python /opt/botpool/bin/python install --no-cache-dir --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip --python /opt/botpool/bin/python install --no-cache-dir --no-deps .
# The software bill of materials of this image's Python packages: /opt/botpool/sbom.cdx.json
COPY requirements/sbom.txt requirements/sbom.txt
RUN python -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --no-cache-dir --require-hashes -r requirements/sbom.txt \
    && /opt/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
        --output-file /opt/botpool/sbom.cdx.json /opt/botpool/bin/python

FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/botpool botpool
COPY --from=build /opt/botpool /opt/botpool
COPY --from=agent /botpool-agent /opt/botpool/bin/botpool-agent
ENV PATH=/opt/botpool/bin:$PATH \
    BOTPOOL_DATA_DIR=/var/lib/botpool \
    BOTPOOL_SERVER__HOST=0.0.0.0
USER 10001
WORKDIR /var/lib/botpool
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8700/healthz', timeout=4)"]
ENTRYPOINT ["botpool"]
CMD ["serve"]
