"""The calls for image rollouts. They need a key with scope `operator`."""

from botpool.client.calls import Calls, without_none
from botpool.client.pools import pool_path
from botpool.client.records import Rollout
from botpool.client.synchronous import Synchronous, synchronous


class AsyncRolloutCalls(Calls):
    """Rollouts of a new image in a pool."""

    async def start_rollout(
        self,
        platform: str,
        image: str,
        *,
        canary_share: float | None = None,
        bake_ms: int | None = None,
        tolerance: float | None = None,
        cpus: float | None = None,
        memory_mb: int | None = None,
    ) -> Rollout:
        """Start a rollout. Botpool promotes the image, or rolls it back, by itself."""
        body = {"image": image} | without_none(
            canaryShare=canary_share,
            bakeMs=bake_ms,
            tolerance=tolerance,
            cpus=cpus,
            memoryMb=memory_mb,
        )
        return await self._rollout(platform, body=body)

    async def rollouts(self, platform: str) -> list[Rollout]:
        """The last rollouts of a pool, newest first."""
        return await self._list(Rollout, f"{pool_path(platform)}/rollouts", "rollouts")

    async def promote_rollout(self, platform: str) -> Rollout:
        """Give all assignments of a pool the new image now."""
        return await self._rollout(platform, "/promote")

    async def roll_back_rollout(self, platform: str) -> Rollout:
        """Keep the old image, or return to it after the last promotion."""
        return await self._rollout(platform, "/rollback")

    async def _rollout(self, platform: str, action: str = "", **request: object) -> Rollout:
        path = f"{pool_path(platform)}/rollouts{action}"
        return await self._record(Rollout, "POST", path, "rollout", repeatable=False, **request)


class RolloutCalls(Synchronous):
    """The synchronous calls for rollouts."""

    start_rollout = synchronous(AsyncRolloutCalls.start_rollout)
    rollouts = synchronous(AsyncRolloutCalls.rollouts)
    promote_rollout = synchronous(AsyncRolloutCalls.promote_rollout)
    roll_back_rollout = synchronous(AsyncRolloutCalls.roll_back_rollout)
