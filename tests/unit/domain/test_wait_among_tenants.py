"""Positions among tenants: slots go to waiting tenants in proportion to their weights."""

from botpool.domain.wait_estimate import TenantQueue, position_among_tenants

WAITING = {
    "a": TenantQueue(weight=1, bots=500),
    "b": TenantQueue(weight=2, bots=3),
    "c": TenantQueue(weight=1, bots=1),
}


def test_position_of_the_only_tenant_is_its_own() -> None:
    assert position_among_tenants(7, "a", {}) == 7


def test_others_are_served_by_weight_as_long_as_they_have_bots() -> None:
    assert position_among_tenants(1, "a", WAITING) == 1 + 2 + 1
    assert position_among_tenants(10, "a", WAITING) == 10 + 3 + 1


def test_heavy_tenant_waits_less() -> None:
    assert position_among_tenants(2, "b", WAITING) == 2 + 1 + 1
