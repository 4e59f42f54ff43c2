"""Steps that the tests of a lagging backend share."""

from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request


async def deployed(stage: Stage, replica: Replica) -> BotId:
    """Admit a bot and take all steps up to its issued start."""
    bot = (await replica.admission.admit(bot_request())).bot
    while await stage.step(replica):
        pass
    return bot.id


def container(stage: Stage) -> str:
    return str(stage.slots()[0]["container_id"])


async def observed_running(stage: Stage, replica: Replica) -> None:
    """Finish the deployment and observe the container running."""
    stage.backend.finish(container(stage))
    stage.backend.show(container(stage), ContainerState.RUNNING)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "busy"
