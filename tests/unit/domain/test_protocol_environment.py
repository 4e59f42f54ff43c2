"""The variables that bots of other systems get."""

import json

from botpool.domain.communication import Protocol
from botpool.domain.protocol_environment import ProtocolValues, with_protocol

VALUES = ProtocolValues(
    url="https://botpool.example.org",
    token="bpa.1.x",
    container_id="c1",
    bot_id=7,
    pool_name="google-meet",
    meeting_url="https://meet.google.com/abc-defg-hij",
    display_name="Scribe",
    bot_data={"vexa": {"language": "de", "token": "stolen"}},
)


def test_bot_with_our_agent_gets_nothing_more() -> None:
    for protocol in (Protocol.BOTPOOL, Protocol.NONE):
        assert with_protocol(protocol, {"A": "1"}, VALUES) == {"A": "1"}


def test_meeboter_gets_its_address_token_and_slot() -> None:
    assert with_protocol(Protocol.MEEBOTER, {"S3_REGION": "eu", "NODE_ENV": "test"}, VALUES) == {
        "NODE_ENV": "test",
        "MILO_URL": "https://botpool.example.org",
        "MILO_AUTH_TOKEN": "bpa.1.x",
        "POOL_SLOT_UUID": "c1",
        "S3_REGION": "eu",
    }


def test_vexa_gets_one_configuration_from_pool_request_and_botpool() -> None:
    of_pool = json.dumps({"redisUrl": "redis://r", "language": "en", "meetingUrl": "x"})
    environment = with_protocol(Protocol.VEXA, {"VEXA_BOT_CONFIG": of_pool}, VALUES)
    assert environment["BOT_CONFIG"] == environment["VEXA_BOT_CONFIG"]
    assert json.loads(environment["VEXA_BOT_CONFIG"]) == {
        "redisUrl": "redis://r",
        "language": "de",
        "platform": "google_meet",
        "meetingUrl": "https://meet.google.com/abc-defg-hij",
        "botName": "Scribe",
        "meeting_id": 7,
        "connectionId": "c1",
        "token": "bpa.1.x",
        "internalSecret": "bpa.1.x",
        "meetingApiCallbackUrl": "https://botpool.example.org/v1/agent/vexa/status_change",
    }
