"""The built documentation in a browser: search, colour schemes, copy buttons, narrow screens."""

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

ROOT = Path(__file__).parents[2]
ARTEFACTS = ROOT / "artefacts" / "docs"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the documentation and serve it; yields its address."""
    folder = tmp_path_factory.mktemp("site")
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-d", folder / "trees"]
    subprocess.run([*sphinx, ROOT / "docs", folder / "html"], check=True)
    handler = functools.partial(QuietHandler, directory=str(folder / "html"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_the_width_and_follow_the_scheme(
    browser: Browser, site: str, scheme: str, width: int
) -> None:
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport={"width": width, "height": 900},
    )
    page = context.new_page()
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    for name in ("index", "tutorial/first-webhook", "explanation/comparison"):
        page.goto(f"{site}/{name}.html")
        page.screenshot(path=ARTEFACTS / f"{Path(name).name}-{scheme}-{width}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in background[4:-1].split(",")[:3]) > 384
    assert light == (scheme == "light"), background
    context.close()


def test_search_finds_a_page(browser: Browser, site: str) -> None:
    page = browser.new_page()
    page.goto(f"{site}/index.html")
    page.locator("input[name=q]").first.fill("standby")
    page.keyboard.press("Enter")
    found = page.locator("ul.search a", has_text="Keep slots hot")
    expect(found.first).to_be_visible(timeout=30_000)
    page.close()


def test_copy_button_copies_commands_without_prompt_and_output(browser: Browser, site: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{site}/tutorial/first-webhook.html")
    block = page.locator(".highlight-console", has_text="webhook test 1")
    block.hover()
    block.locator("button.copybtn").click()
    expect(block.locator("button.copybtn.success")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").split("\n") == [
        "botpool webhook test 1",
        "botpool bot create https://meet.google.com/abc-defg-hij --wait",
    ]
    context.close()
