"""The portions that the Kubernetes backend takes from the shared request budget."""

import asyncio

from botpool.backends.kubernetes.request_allotment import RequestAllotment
from botpool.backends.protocol import RequestPurpose
from tests.backends.scripted_kubernetes import GrantingBudget

START, STOP = RequestPurpose.START, RequestPurpose.STOP


class SlowBudget(GrantingBudget):
    """Answers after other requests have begun, as PostgreSQL does."""

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        await asyncio.sleep(0)
        await super().take(purpose, requests)


async def test_concurrent_requests_share_a_portion() -> None:
    budget = SlowBudget()
    allotment = RequestAllotment(shared=budget, portion=10)
    await asyncio.gather(*(allotment.take(START, 1) for _ in range(30)))
    assert budget.taken == [(START, 10)] * 3


async def test_each_purpose_has_a_portion_of_its_own() -> None:
    budget = SlowBudget()
    allotment = RequestAllotment(shared=budget, portion=10)
    await asyncio.gather(allotment.take(START, 1), allotment.take(STOP, 1))
    assert budget.taken == [(START, 10), (STOP, 10)]


async def test_pause_gives_up_what_is_left() -> None:
    budget = SlowBudget()
    allotment = RequestAllotment(shared=budget, portion=10)
    await allotment.take(START, 1)
    await allotment.pause(1.0)
    await allotment.take(START, 1)
    assert (budget.taken, budget.pauses) == ([(START, 10)] * 2, [1.0])


async def test_pause_reaches_requests_that_wait_for_a_portion() -> None:
    budget = SlowBudget()
    allotment = RequestAllotment(shared=budget, portion=10)
    requests = asyncio.gather(*(allotment.take(START, 1) for _ in range(3)))
    await asyncio.sleep(0)  # The first asks for a portion, and the others wait for it.
    await allotment.pause(1.0)
    await requests
    assert budget.taken == [(START, 10)] * 2, "the others ask again, and the budget refuses"
