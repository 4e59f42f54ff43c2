import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.meeting_links import host_of, pool_name_of


@pytest.mark.parametrize(
    ("url", "pool_name"),
    [
        ("https://meet.google.com/abc-defg-hij", "google-meet"),
        ("https://teams.microsoft.com/l/meetup-join/1", "teams"),
        ("https://teams.live.com/meet/1", "teams"),
        ("https://zoom.us/j/1", "zoom"),
        ("https://us02web.zoom.us/j/1?pwd=x", "zoom"),
        ("HTTPS://MEET.GOOGLE.COM./abc", "google-meet"),
        ("https://example.org/meet.google.com", None),
        ("https://notzoom.us/j/1", None),
        ("https://zoom.us.example.org/j/1", None),
        ("ftp://zoom.us/j/1", None),
        ("zoom.us/j/1", None),
        ("https://", None),
        ("https://[zoom.us/", None),
        ("https://zoom.us:99999/j/1", None),
    ],
)
def test_pool_name_of_link(url: str, pool_name: str | None) -> None:
    assert pool_name_of(url) == pool_name


@given(st.text())
def test_any_text_has_pool_name_or_none(text: str) -> None:
    host_of(text)
    pool_name_of(text)
