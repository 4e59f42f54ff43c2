"""An emulator of Coolify: its API, its server, its delays and its failures.

`EmulatedCoolify` simulates Coolify without clock and network, `EmulatorServer` serves it over HTTP.
"""

from botpool.emulators.coolify.clock import EmulatedClock
from botpool.emulators.coolify.config import EmulatorConfig
from botpool.emulators.coolify.container_runtime import ContainerRuntime, SimulatedRuntime
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.faults import InvalidFault
from botpool.emulators.coolify.http_server import EmulatorServer
from botpool.emulators.coolify.process_runtime import ProcessRuntime

__all__ = [
    "ContainerRuntime",
    "EmulatedClock",
    "EmulatedCoolify",
    "EmulatorConfig",
    "EmulatorServer",
    "InvalidFault",
    "ProcessRuntime",
    "SimulatedRuntime",
]
