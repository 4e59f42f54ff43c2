"""The cursor of the stream, against every way in which transactions may end."""

from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.cursor import Cursor


def test_cursor_round_trips_through_text() -> None:
    cursor = Cursor(epoch=59270400000000, since=7312, until=7318, last_id=40127)
    assert str(cursor) == "59270400000000-7312-7318-40127"
    assert Cursor.parse(str(cursor)) == cursor
    for text in (
        "",
        "1",
        "1-2",
        "1-2-3",
        "1-2-3-4-5",
        "1-2-1-0",
        "-1-2-3-4",
        "1-1-2-x",
        " 1-1-2-3",
        "1-" + "9" * 60 + "-1-1",
    ):
        assert Cursor.parse(text) is None


@given(
    written=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 60)), unique_by=lambda w: w[1]),
    horizons=st.lists(st.integers(1, 21), min_size=1).map(sorted),
    stopped_at=st.integers(0, 60),
)
def test_resumed_reader_gets_each_change_once(
    written: list[tuple[int, int]], horizons: list[int], stopped_at: int
) -> None:
    """Changes as (transaction, id); a stream reads range by range, stops, and goes on elsewhere."""
    read: list[int] = []
    cursor = Cursor.at(0, epoch=1)
    for since, until in zip([0, *horizons], horizons, strict=False):
        for change_id in sorted(id_ for xid, id_ in written if since <= xid < until):
            if len(read) < stopped_at:
                read.append(change_id)
                cursor = Cursor(epoch=1, since=since, until=until, last_id=change_id)
    unread = [id_ for xid, id_ in written if not cursor.has_read(transaction=xid, change_id=id_)]
    if read:
        assert sorted(read + unread) == sorted(id_ for _, id_ in written)
