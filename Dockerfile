# Image of Botpool itself, which does not run as root. Bots have their own images (deploy/bot). It also
# holds the wrapper for them: COPY --from=botpool /opt/botpool/bin/botpool-agent /usr/local/bin/
FROM golang:1.26-bookworm AS agent
WORKDIR /src
COPY pyproject.toml ./
COPY scripts/build-agent scripts/build-agent
COPY packages/agent-go packages/agent-go
RUN scripts/build-agent /botpool-agent

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements/run.txt requirements/run.txt
RUN python -m venv /opt/botpool \
    && /opt/botpool/bin/pip install --no-cache-dir --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/botpool/bin/pip install --no-cache-dir --no-deps .

FROM python:3.11-slim-bookworm
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
