"""An emulator of Coolify: its API, its server, its delays and its failures.

`World` is all of it without clock and network; `create_app` and `EmulatorServer` put it on HTTP;
`EmulatedTransport` gives it to an httpx client in memory, wire faults included.
"""

from botpool.emulators.coolify.asgi import create_app
from botpool.emulators.coolify.clock import Clock, ManualClock, ScaledClock
from botpool.emulators.coolify.containers import ContainerRuntime, NoProcesses
from botpool.emulators.coolify.faults import WrongFault
from botpool.emulators.coolify.nature import Nature
from botpool.emulators.coolify.processes import ProcessRuntime
from botpool.emulators.coolify.server import EmulatorServer
from botpool.emulators.coolify.transport import EmulatedTransport
from botpool.emulators.coolify.world import World

__all__ = [
    "Clock",
    "ContainerRuntime",
    "EmulatedTransport",
    "EmulatorServer",
    "ManualClock",
    "Nature",
    "NoProcesses",
    "ProcessRuntime",
    "ScaledClock",
    "World",
    "WrongFault",
    "create_app",
]
