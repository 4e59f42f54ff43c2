"""Types of ids and names, so that mypy keeps them apart."""

from typing import NewType

BotId = NewType("BotId", int)
"""The id of a bot. Ids follow the order of arrival."""

TenantId = NewType("TenantId", int)

SlotId = NewType("SlotId", int)
AssignmentId = NewType("AssignmentId", int)
"""The id of an assignment. A later assignment has a larger id, also after a restore."""

PoolName = NewType("PoolName", str)
"""The name of a pool: `google-meet`, `teams`, `zoom` or any configured one."""

ContainerId = NewType("ContainerId", str)
"""The backend's stable handle for a slot's container."""

DeploymentId = NewType("DeploymentId", str)
"""The backend's handle for one start, where the backend has deployments."""
