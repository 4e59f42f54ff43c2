"""What tests of a backend whose status lags share: a bot that deploys, one seen running."""

from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, wish


async def deployed(stage: Stage, replica: Replica) -> BotId:
    bot = (await replica.admission.admit(wish())).bot
    while await stage.step(replica):
        pass
    return bot.id


def container(stage: Stage) -> str:
    return str(stage.slots()[0]["container_id"])


async def observed_running(stage: Stage, replica: Replica) -> None:
    stage.backend.finish(container(stage))
    stage.backend.show(container(stage), ContainerState.RUNNING)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "busy"
