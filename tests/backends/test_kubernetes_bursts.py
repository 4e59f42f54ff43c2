"""Starts of many runs at once."""

import asyncio
from dataclasses import replace

import httpx

from botpool.backends.kubernetes import KubernetesBackend, names
from botpool.domain.ids import AssignmentId
from tests.backends.scripted_kubernetes import ScriptedKubernetes
from tests.backends.test_kubernetes_requests import REQUEST, SPEC, pod

TIMEOUT_S = 60.0
RUNS = 30


async def start(backend: KubernetesBackend, run: int) -> None:
    request = replace(REQUEST, assignment_id=AssignmentId(run), deployment_id=None)
    uid = await backend.prepare(SPEC, request, timeout_s=TIMEOUT_S)
    await backend.start(replace(request, deployment_id=uid), timeout_s=TIMEOUT_S)


async def test_first_gates_open_before_the_last_creates() -> None:
    server = ScriptedKubernetes()
    server.on("POST", "/pods", httpx.Response(201, json=pod("gated")))
    for run in range(1, RUNS + 1):
        name = names.pod_name("one", SPEC.name, AssignmentId(run))
        server.on("PATCH", f"/pods/{name}", httpx.Response(200, json=pod("gated", run=run)))
    backend = server.backend()
    await asyncio.gather(*(start(backend, run) for run in range(1, RUNS + 1)))
    methods = [request.method for request in server.requests]
    assert methods.count("POST") == methods.count("PATCH") == RUNS
    assert methods.index("PATCH") < RUNS // 2
