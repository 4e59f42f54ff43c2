"""Which connections a server keeps when there are too many, and which it closes first."""

from dataclasses import dataclass, field

import pytest

from botpool.api.connections import CallerKind, ConnectionLimits, ConnectionTable, source_of

ATTACKER, OTHER = "192.0.2.1", "192.0.2.2"


@dataclass(eq=False)
class FakeConnection:
    source: str | None = ATTACKER
    caller: CallerKind = CallerKind.UNKNOWN
    aborted: bool = False

    def abort(self) -> None:
        self.aborted = True


@dataclass
class Server:
    """A table and the reasons with which it closed connections."""

    limits: ConnectionLimits
    reasons: list[str] = field(default_factory=list)
    now: float = 100.0

    def __post_init__(self) -> None:
        self.table = ConnectionTable(self.limits, on_closed=self.reasons.append)

    def connect(self, count: int = 1, source: str | None = ATTACKER) -> list[FakeConnection]:
        connections = [FakeConnection(source) for _ in range(count)]
        assert all(self.table.admit(each, self.now) for each in connections)
        return connections

    def request(self, connection: FakeConnection, caller: CallerKind) -> None:
        """Let a whole request of this caller arrive; it is in progress."""
        self.table.work(connection)
        self.table.identify(connection, caller, self.now)


def limited(connections: int = 10, per_address: int = 1000) -> Server:
    return Server(ConnectionLimits(connections=connections, per_address=per_address))


def aborted(*connections: FakeConnection) -> list[bool]:
    return [each.aborted for each in connections]


def test_new_connection_takes_the_place_of_the_one_that_waited_longest() -> None:
    server = limited(3)
    first, second, third = server.connect(3)
    server.now += 10
    server.connect()
    assert aborted(first, second, third) == [True, False, False]
    assert (server.table.count(), server.reasons) == (3, ["room"])


def test_callers_with_a_key_make_room_after_those_without() -> None:
    server = limited(3)
    user, agent, unknown = server.connect(3)
    server.request(user, CallerKind.USER)
    server.request(agent, CallerKind.AGENT)
    server.now += 10
    server.table.wait(agent, server.now)
    server.table.wait(user, server.now)
    for expected in ([False, False, True], [True, False, True], [True, True, True]):
        (newest,) = server.connect()
        server.request(newest, CallerKind.USER)
        assert aborted(user, agent, unknown) == expected


def test_connection_with_a_request_in_progress_is_never_closed_for_another() -> None:
    server = limited(2)
    for each in (busy := server.connect(2)):
        server.request(each, CallerKind.USER)
    refused = FakeConnection()
    assert not server.table.admit(refused, server.now)
    assert aborted(*busy) == [False, False]
    assert (server.reasons, server.table.turned_away) == (["full"], 1)
    server.table.remove(busy[0])
    server.connect()


def test_client_that_had_no_time_to_send_its_request_counts_as_turned_away() -> None:
    server = limited(2)
    server.connect(2)
    server.now += 0.1
    server.connect()
    assert server.table.turned_away == 1
    server.now += 10
    server.connect()
    assert server.table.turned_away == 1


def test_one_address_keeps_at_most_its_share_of_idle_connections() -> None:
    server = limited(connections=1000, per_address=5)
    held = server.connect(5)
    other = server.connect(1, OTHER)
    server.now += 10
    for _ in range(20):
        held += server.connect()
        server.now += 2
    assert [each.aborted for each in held] == [True] * 20 + [False] * 5
    assert aborted(*other) == [False]
    assert server.table.count() == 6
    assert set(server.reasons) == {"address"}


def test_burst_of_clients_behind_one_address_is_served() -> None:
    """A thousand agents of one machine connect before the server has read one request."""
    server = limited(connections=4096, per_address=512)
    agents = server.connect(1500)
    for each in agents:
        server.request(each, CallerKind.AGENT)
    server.now += 60
    server.connect(512)
    assert aborted(*agents) == [False] * 1500
    assert server.reasons == []


def test_requests_with_a_key_do_not_count_for_their_address() -> None:
    server = limited(connections=1000, per_address=5)
    users = server.connect(5)
    for each in users:
        server.request(each, CallerKind.USER)
        server.table.wait(each, server.now)
    server.now += 10
    server.connect(5)
    assert aborted(*users) == [False] * 5


def test_trusted_proxy_has_no_limit_for_its_address() -> None:
    server = limited(connections=1000, per_address=5)
    held = server.connect(5, source=None)
    server.now += 10
    server.connect(5, source=None)
    assert aborted(*held) == [False] * 5


@pytest.mark.parametrize(
    ("proxies", "host", "expected"),
    [
        ((), "10.0.0.1", False),
        (("*",), "10.0.0.1", True),
        (("10.0.0.0/8",), "10.0.0.1", True),
        (("10.0.0.0/8",), "192.0.2.1", False),
        (("10.0.0.0/8",), "2001:db8::1", False),
        (("2001:db8::/32", "127.0.0.1"), "2001:db8::1", True),
    ],
)
def test_trusted_proxies_are_recognized(
    proxies: tuple[str, ...], host: str, expected: bool
) -> None:
    assert ConnectionTable(trusted_proxies=proxies).is_trusted_proxy(host) is expected


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_addresses_of_one_network_count_as_one(host: str, source: str) -> None:
    assert source_of(host) == source


def test_closed_connections_leave_nothing_behind() -> None:
    server = limited(connections=1000)
    for each in server.connect(50):
        server.table.remove(each)
        server.table.remove(each)
        server.table.wait(each, server.now)
    assert server.table.count() == 0
    assert not server.table._waiting_by_source
    assert not any(server.table._waiting.values())


def test_lowered_limits_keep_the_proportion_of_agents() -> None:
    limits = ConnectionLimits(connections=4000, for_agents=3000)
    lowered = limits.lowered_to(400)
    assert (lowered.connections, lowered.for_agents) == (400, 300)
    assert limits.lowered_to(5000) is limits
