"""Why a rollout cannot start or end."""

from dataclasses import dataclass

from botpool.domain.errors import BotpoolError


@dataclass(eq=False)
class RolloutActive(BotpoolError):
    """The pool already has a rollout."""

    template = (
        "Pool {pool_name} has a rollout of {image} that has not ended. Promote it or roll it back "
        "first."
    )
    pool_name: str
    image: str


@dataclass(eq=False)
class NoRollout(BotpoolError):
    """There is no rollout to promote or to roll back."""

    template = "Pool {pool_name} has no rollout to {action}."
    pool_name: str
    action: str


@dataclass(eq=False)
class SameRevision(BotpoolError):
    """The pool already has the image and the settings of the requested revision."""

    template = (
        "image: pool {pool_name} already has {image}. Give the new image a tag of its own, or name "
        "it with its digest."
    )
    pool_name: str
    image: str
