"""Statements about token buckets, which all replicas share."""

from dataclasses import dataclass

from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Tokens from a bucket, or none and the time until the next one."""

    tokens: int
    wait_s: float


@query
def take_tokens(*, bucket: str, wanted: int, burst: int, per_minute: int) -> Grant:
    """Take up to `wanted` tokens from a bucket."""


@query
def prune_token_buckets(*, limit: int) -> list[str]:
    """Delete buckets that were not used for a day: an absent bucket is full."""
