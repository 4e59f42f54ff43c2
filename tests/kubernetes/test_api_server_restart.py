"""The API server of Kubernetes is restarted while bots start, run and end."""

import asyncio
from pathlib import Path

import pytest

from tests.support.fixed_port_installation import wait_for
from tests.support.invariants import assert_settled
from tests.support.kubernetes import own_cluster
from tests.support.kubernetes_installation import kubernetes_installation, pool

SHORT_CALL = {"joinSeconds": 0, "staySeconds": 1}
LONG_CALL = {"joinSeconds": 0, "staySeconds": 600}


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_restarted_api_server_ends_no_bot_and_loses_none(
    database_url: str, tmp_path: Path
) -> None:
    with own_cluster() as cluster, cluster.namespace() as namespace:
        async with kubernetes_installation(
            cluster, namespace, database_url, tmp_path, kubeconfig=None, **pool("google-meet", 6)
        ) as installed:
            await installed.serve()
            (in_call,) = await installed.send(1, LONG_CALL)
            await installed.wait_for_in_call(in_call)
            others = await installed.send(12, SHORT_CALL)
            cluster.stop_api_server()
            try:
                # While the API server does not respond, Botpool must not end any bot.
                await asyncio.sleep(3)
                assert (await installed.bot(in_call["id"]))["status"] == "IN_CALL"
                others += await installed.send(3, SHORT_CALL)
            finally:
                cluster.start_api_server()

            async def others_are_done() -> bool:
                current = [(await installed.bot(bot["id"]))["status"] for bot in others]
                return all(status == "DONE" for status in current)

            await wait_for("the end of the other bots", others_are_done, within_s=400)
            assert (await installed.bot(in_call["id"]))["status"] == "IN_CALL"
            await installed.call("DELETE", f"/v1/bots/{in_call['id']}")
            await installed.wait_for_end(within_s=200)
            runs = installed.rows("SELECT count(*), count(DISTINCT bot_id) FROM assignments")
            assert runs == [(16, 16)]
            assert_settled(database_url)

            async def nothing_is_left() -> bool:
                return not cluster.pods(namespace)

            await wait_for("a namespace without Pods", nothing_is_left)
