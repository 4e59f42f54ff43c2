"""Names for the numbers and strings that must not be mixed up."""

from typing import NewType

BotId = NewType("BotId", int)
"""A bot. Ids are handed out in the order of arrival, so this is also its arrival number."""

SlotId = NewType("SlotId", int)
AssignmentId = NewType("AssignmentId", int)
"""One bot in one slot, once. Ids only grow: a later assignment has a larger one."""

PoolName = NewType("PoolName", str)
"""The name of a pool: `google-meet`, `teams`, `zoom` or any configured one."""

ContainerId = NewType("ContainerId", str)
"""The backend's stable handle of a slot's place."""

DeploymentId = NewType("DeploymentId", str)
"""The backend's handle of one start, where it has one."""
