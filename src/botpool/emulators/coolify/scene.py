"""What every part of the world shares: time, chance, faults, and how things naturally are."""

from dataclasses import dataclass

from botpool.emulators.coolify.agenda import Agenda
from botpool.emulators.coolify.chance import Chance
from botpool.emulators.coolify.containers import ContainerRuntime
from botpool.emulators.coolify.faults import Faults
from botpool.emulators.coolify.nature import Nature


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    agenda: Agenda
    chance: Chance
    faults: Faults
    nature: Nature
    runtime: ContainerRuntime

    @property
    def now(self) -> float:
        return self.agenda.now

    @property
    def server_reachable(self) -> bool:
        return self.faults.lasting("serverUnreachable") is None

    def status_lag(self) -> float:
        bounds = self.nature.status_lag_s
        if fault := self.faults.lasting("statusLag"):
            bounds = fault.seconds("minSeconds"), fault.seconds("maxSeconds")
        return self.chance.between(bounds)
