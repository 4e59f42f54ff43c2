"""Every agent: HTTPS with the certificates that the machine trusts."""

from pathlib import Path

import pytest

from tests.agents.plan import AGENTS, launcher, until
from tests.support.fake_control_plane import CERTIFICATE, ControlPlane


@pytest.mark.parametrize("name", AGENTS)
def test_https_trusts_only_known_certificates(name: str, tmp_path: Path) -> None:
    plane = ControlPlane(tls=True)
    plane.up()
    try:
        with launcher(plane, tmp_path, AGENTS[name]) as agent:
            stranger = agent.start(["report", "IN_CALL"])
            until(lambda: "certificate" in stranger.output.lower())
            assert not stranger.has_ended()
            assert plane.requests == 0
            stranger.process.kill()
            trusted = {
                variable: str(CERTIFICATE) for variable in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
            }
            running = agent.start(["report", "IN_CALL"], **trusted)
            assert running.exit_code() == 0, running.output
            assert plane.statuses[-2:] == ["IN_CALL", "DONE"]
    finally:
        plane.down()
