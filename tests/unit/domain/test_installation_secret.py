"""Weak secrets are recognised, and each purpose gets its own key."""

import hashlib
import hmac
import secrets

import pytest

from botpool.domain.ids import AssignmentId
from botpool.domain.installation_secret import (
    EXAMPLE_NEWER_SECRET,
    EXAMPLE_SECRET,
    Purpose,
    derive_key,
    derive_keys,
    new_secret,
    weakness_of,
)
from botpool.domain.tokens import agent_token, assignment_of

STRONG = "9c41e07d2ab85f36c1e0d4972f6ba853"


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("changeme", "has 8 characters"),
        (STRONG[:31], "has 31 characters"),
        ("changeme" * 4, "'changeme'"),
        ("Change-Me-" * 4, "'Change-Me'"),
        ("my-production-password-of-the-team", "'password'"),
        ("a" * 64, "a pattern"),
        ("0123456789abcdef" * 2, "a pattern"),
        ("abcdefghijklmnopqrstuvwxyz012345", "a pattern"),
        ("qwertyuiop" * 4, "a pattern"),
        ("00000000-0000-0000-0000-000000000001", "a pattern"),
    ],
)
def test_weak_secret_is_named_without_showing_it(secret: str, problem: str) -> None:
    said = weakness_of(secret)
    assert said is not None
    assert problem in said
    assert "openssl rand -hex 32" in said
    assert secret not in said


@pytest.mark.parametrize(
    "secret",
    [STRONG, EXAMPLE_SECRET, EXAMPLE_NEWER_SECRET, pytest.param(new_secret(), id="new secret")],
)
def test_random_secret_is_strong(secret: str) -> None:
    assert weakness_of(secret) is None


def test_random_secrets_of_every_usual_form_are_strong() -> None:
    for _ in range(500):
        for secret in (secrets.token_hex(16), secrets.token_urlsafe(24), secrets.token_urlsafe(32)):
            assert weakness_of(secret) is None, secret


def test_key_is_hkdf_of_the_secret() -> None:
    # RFC 5869 written out: extract, then the first block of expand.
    extracted = hmac.new(b"botpool installation", STRONG.encode(), hashlib.sha256).digest()
    expected = hmac.new(extracted, b"agents\x01", hashlib.sha256).digest()
    assert derive_key(STRONG, Purpose.AGENTS) == expected


def test_token_signed_with_the_secret_itself_is_refused() -> None:
    forged = agent_token(AssignmentId(7), STRONG.encode())
    assert assignment_of(forged, derive_keys([STRONG], Purpose.AGENTS)) is None


def test_tokens_of_older_secrets_are_accepted() -> None:
    old, new = derive_keys([STRONG, new_secret()], Purpose.AGENTS)
    token = agent_token(AssignmentId(7), old)
    assert assignment_of(token, (new, old)) == 7
    assert assignment_of(token, (new,)) is None
