"""An installation on Kubernetes: API, scheduler, kubelet and agents, all real."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.fixed_port_installation import wait_for
from tests.support.invariants import assert_settled
from tests.support.kubernetes import Cluster
from tests.support.kubernetes_installation import kubernetes_installation, pool

SHORT_CALL = {"joinSeconds": 0, "staySeconds": 0}


@pytest.mark.timeout(900)
async def test_thirty_bots_share_a_pool_of_ten(
    kubernetes: Cluster, database_url: str, tmp_path: Path
) -> None:
    settings = pool("google-meet", 10)
    with kubernetes.namespace() as namespace:
        async with kubernetes_installation(
            kubernetes, namespace, database_url, tmp_path, **settings
        ) as installed:
            await installed.serve()
            bots = await installed.send(30, SHORT_CALL)
            ended = await installed.wait_for_end(within_s=600)
            assert ended == {bot["id"]: "DONE" for bot in bots}
            boots = installed.rows("SELECT bot_id FROM assignments")
            assert Counter(boots) == Counter((bot["id"],) for bot in bots)
            assert len(await installed.slots()) == 10
            assert_settled(database_url)
            assert "in call" in await installed.bot_output(bots[0]["id"])

            async def nothing_is_left() -> bool:
                return not installed.cluster.pods(namespace)

            await wait_for("a namespace without Pods", nothing_is_left)
            checks = await installed.doctor_output()
            assert "Kubernetes v1." in checks
            assert "kubernetes: 0 containers" in checks
