"""A connection that runs our statements by their names: prepared once, many in one round trip.

psycopg's cursor finds out at every execution what never changes for a statement in a file: how its
parameters are numbered, which types they have, which of its prepared statements it is. And in its
pipelines every statement asks the event loop for leave to be sent: three tenths of the client's
time for a lone bot. So the statements are sent here; the protocol, the waiting, the cancelling and
the reading of values are psycopg's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import Error, OperationalError, error_from_result
from psycopg.generators import execute, fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import AsyncRowFactory, DictRow, dict_row

from botpool.store.parameters import written
from botpool.store.statements import sent_text

Call: TypeAlias = tuple[str, Mapping[str, Any]]
Rows: TypeAlias = list[dict[str, Any]]

_PARAMETER = re.compile(r"%\((\w+)\)s")


class _Prepared(NamedTuple):
    name: bytes
    parameters: Sequence[str]
    """Their names, in the order of their numbers."""


class NamedConnection(AsyncConnection[DictRow]):
    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[DictRow] = dict_row) -> None:
        super().__init__(pgconn, row_factory)
        # psycopg keeps its own, and sometimes has the server forget all that it was told.
        self.prepare_threshold = None
        self._known: dict[str, _Prepared] = {}
        self._reader = Transformer.from_context(self)

    def text_of(self, name: str) -> str:
        """A statement as it is sent, by its name."""
        return sent_text(name)

    async def run(self, *calls: Call) -> list[Rows]:
        """Run the statements in order, in one round trip, and give the rows of each.

        They are one transaction, if they are not part of one. The first that fails is raised, and
        those after it were not run.
        """
        async with self.lock:
            results = await self.wait(self._results(calls))
        return [self._rows(result) for result in results]

    def _results(self, calls: Sequence[Call]) -> PQGen[list[PGresult]]:
        ready = []
        for name, given in calls:
            prepared = self._known.get(self.text_of(name)) or (yield from self._prepare(name))
            ready.append((prepared.name, [written(given[each]) for each in prepared.parameters]))
        if len(ready) == 1:
            self.pgconn.send_query_prepared(*ready[0])
            results: list[PGresult] = yield from execute(self.pgconn)
            return results
        return (yield from self._results_together(ready))

    def _results_together(
        self, ready: Sequence[tuple[bytes, Sequence[bytes | None]]]
    ) -> PQGen[list[PGresult]]:
        pgconn = self.pgconn
        pgconn.enter_pipeline_mode()
        results: list[PGresult] = []
        try:
            for name, values in ready:
                pgconn.send_query_prepared(name, values)
            pgconn.pipeline_sync()
            yield from send(pgconn)
            while True:
                answers = yield from fetch_many(pgconn)
                if not answers:
                    raise OperationalError("the connection was lost between two answers")
                if answers[0].status == ExecStatus.PIPELINE_SYNC:
                    return results
                results += answers  # One of each, and one of a commit that failed at the end.
        except Error:
            # Why the server ended the connection, if it has told.
            for result in results:
                _refuse_failure(result)
            raise
        finally:
            if pgconn.status == ConnStatus.OK:
                pgconn.exit_pipeline_mode()

    def _prepare(self, name: str) -> PQGen[_Prepared]:
        text, parameters = numbered(self.text_of(name))
        prepared = _Prepared(f"{name}_{len(self._known)}".encode(), parameters)
        self.pgconn.send_prepare(prepared.name, text.encode())
        for result in (yield from execute(self.pgconn)):
            _refuse_failure(result)
        self._known[self.text_of(name)] = prepared
        return prepared

    def _rows(self, result: PGresult) -> Rows:
        _refuse_failure(result)
        if result.status != ExecStatus.TUPLES_OK or not result.ntuples:
            return []
        columns = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
        self._reader.set_pgresult(result)
        return self._reader.load_rows(
            0, result.ntuples, lambda values: dict(zip(columns, values, strict=True))
        )


def numbered(text: str) -> tuple[str, Sequence[str]]:
    """A statement as the server reads it, and the names of its parameters by their numbers."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    text = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return text.replace("%%", "%"), names


def _refuse_failure(result: PGresult) -> None:
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(result)
