"""Which meeting links a pool accepts: private addresses are refused in every spelling."""

import pytest

from botpool.domain.meeting_hosts import check_pattern, is_allowed, meeting_host

DEFAULT = ("*",)

PRIVATE = [
    "http://169.254.169.254/latest/meta-data/",
    "http://127.0.0.1/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://10.0.0.1:8080/x",
    "http://172.16.3.4/",
    "http://192.168.1.1/",
    "http://0.0.0.0/",
    "http://0/",
    "http://100.64.0.1/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://meet.localhost/",
    "http://printer.local/",
    "http://metadata.google.internal/",
    "http://metadata/",
    "http://postgres:5432/",
    "http://router.home.arpa/",
    "http://meet.google.com@127.0.0.1/",
    "http://meet.google.com:x@169.254.169.254/",
    "http://127.0.0.1\\@meet.google.com/",
    "http://meet.google.com\\@127.0.0.1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%2f@x/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://127\u30020\u30020\u30021/",
    "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "http://1.2.3.08/",
    "http://1.2.3.4.5/",
    "http://meet.0x7f/",
]

PUBLIC = [
    "https://meet.google.com/abc-defg-hij",
    "https://MEET.google.com./abc",
    "https://us02web.zoom.us/j/1?pwd=x",
    "https://teams.microsoft.com/l/meetup-join/19%3ameeting",
    "https://teams.live.com/meet/\u00e4",
    "https://user:password@meet.example.org/room",
    "https://b\u00fccher.example/room",
    "https://xn--bcher-kva.example/room",
    "https://8.8.8.8/room",
    "https://[2001:4860:4860::8888]/room",
    "https://meet.example.org:8443/room",
    "https://local.example.org/room",
    "https://my_room.example.org/",
]


@pytest.mark.parametrize("url", PRIVATE)
def test_private_host_is_refused_by_default(url: str) -> None:
    assert not is_allowed(url, DEFAULT)


@pytest.mark.parametrize("url", PUBLIC)
def test_public_host_is_allowed_by_default(url: str) -> None:
    assert is_allowed(url, DEFAULT)


@pytest.mark.parametrize(
    ("url", "pattern", "allowed"),
    [
        ("https://meet.example.org/a", "meet.example.org", True),
        ("https://Meet.Example.org./a", "meet.example.org", True),
        ("https://eu.meet.example.org/a", "meet.example.org", False),
        ("https://eu.meet.example.org/a", "*.example.org", True),
        ("https://example.org/a", "*.example.org", False),
        ("https://evilexample.org/a", "*.example.org", False),
        ("https://meet.example.org.evil.com/a", "*.example.org", False),
        ("https://meet.example.org@evil.com/a", "meet.example.org", False),
        ("http://127.0.0.1:8080/a", "127.0.0.1", True),
        ("http://2130706433/a", "127.0.0.1", True),
        ("http://127.0.0.2/a", "127.0.0.1", False),
        ("http://10.20.30.40/a", "10.0.0.0/8", True),
        ("http://[::1]/a", "::1", True),
        ("http://[::ffff:10.0.0.1]/a", "10.0.0.0/8", True),
        ("http://localhost:3000/a", "localhost", True),
        ("http://meet.internal/a", "*.internal", True),
        ("https://meet.google.com/a", "10.0.0.0/8", False),
    ],
)
def test_pattern_decides(url: str, pattern: str, allowed: bool) -> None:
    assert is_allowed(url, (check_pattern(pattern),)) is allowed


@pytest.mark.parametrize("pattern", ["", "*.", "a*b.org", "https://a.org", "a b", "10.0.0.0/99"])
def test_pattern_that_matches_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="should be hosts such as"):
        check_pattern(pattern)


def test_every_spelling_of_an_address_is_one_host() -> None:
    spellings = ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "127.0.0.1."]
    assert len({meeting_host(f"http://{spelling}/") for spelling in spellings}) == 1
