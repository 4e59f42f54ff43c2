"""`botpool settings` and `botpool pool show` name the rollout that replaced a configured image."""

import json
import subprocess
from pathlib import Path

from tests.support.server import COMMAND, installation

ROLLOUTS = "/v1/pools/google-meet/rollouts"


async def test_settings_and_pool_show_the_promoted_image_and_its_origin(
    database_url: str, tmp_path: Path
) -> None:
    settings = {"pools.google-meet.image": "bot:1", "pools.google-meet.max_size": "0"}
    async with installation(database_url, tmp_path, settings) as installed:

        def run(*arguments: str) -> str:
            ran = subprocess.run(
                [COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                text=True,
                env=installed._environment(),
                cwd=tmp_path,
            )
            return ran.stdout

        def configured() -> tuple[str, str]:
            (image,) = json.loads(run("settings", "pools.google-meet.image", "--json"))["settings"]
            return image["value"], image["from"]

        variable = "BOTPOOL_POOLS__GOOGLE_MEET__IMAGE"
        server = await installed.serve()
        assert configured() == ("bot:1", variable)
        async with installed.client(server) as user:
            started = await user.post(ROLLOUTS, json={"image": "bot:2"})
            number = started.json()["rollout"]["id"]
            assert configured() == ("bot:1", variable), "not promoted yet"
            assert (await user.post(f"{ROLLOUTS}/promote")).is_success
        assert configured() == ("bot:2", f"rollout {number}; {variable} has bot:1")
        shown = run("pool", "show", "google-meet", "--url", server.url, "--key", installed.key)
        assert f"promoted by rollout {number}; the settings name bot:1" in shown
