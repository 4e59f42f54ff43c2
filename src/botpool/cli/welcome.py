"""What `botpool up` says when it is ready."""

from rich.console import Console


def greet(console: Console, url: str, key: str) -> None:
    """The dashboard's address stands alone on its line, so that it can be clicked and cut out."""
    lines = (
        "",
        "Botpool is ready. The dashboard, with its key:",
        "",
        f"{url}/#key={key}",
        "",
        "Send a bot (a demo that joins no real meeting and stays ten seconds):",
        "",
        f"curl -s {url}/v1/bots -H 'Authorization: Bearer {key}' \\",
        "  -H 'Content-Type: application/json' \\",
        """  -d '{"meetingUrl": "https://meet.google.com/abc-defg-hij"}'""",
        "",
        "Ctrl-C stops everything.",
        "",
    )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
