"""A connection that sends a pipeline without asking the event loop for leave.

psycopg waits twice for each statement of a pipeline, until the socket can be written to, and each
wait is a turn of the event loop: behind a loaded server's requests a transaction of nine statements
took twenty turns, and held its locks for as long. A socket that has taken all that was given to it
takes more, so the loop is asked only if something was left behind.
"""

from typing import Any

from psycopg import AsyncConnection
from psycopg.abc import RV, PQGen
from psycopg.rows import DictRow
from psycopg.waiting import READY_W, WAIT_RW


class EagerConnection(AsyncConnection[DictRow]):
    async def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        return await super().wait(self._without_leave(gen), *args, **kwargs)

    def _without_leave(self, gen: PQGen[RV]) -> PQGen[RV]:
        try:
            wanted = next(gen)
            while True:
                # A flush that leaves nothing behind is what being able to write means here.
                at_once = wanted == WAIT_RW and self.pgconn.flush() == 0
                wanted = gen.send(READY_W if at_once else (yield wanted))
        except StopIteration as end:
            answer: RV = end.value
            return answer
