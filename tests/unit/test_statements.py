"""The text of statements as it is sent."""

from botpool.store.statements import sent_text


def test_comments_and_indentation_are_not_sent() -> None:
    sent = sent_text("lock_pool")
    assert sent == "SELECT pg_advisory_xact_lock(1651471472, hashtext(%(pool_name)s))"
