"""The page's files: all are served, under one policy, and none names another origin."""

import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from botpool.dashboard import page

STATIC = Path(str(files("botpool.dashboard") / "static"))
FILES = [path for path in STATIC.rglob("*") if path.is_file()]
# A name of SVG's, and examples of meetings in the form for a bot.
NOT_ASKED = (
    "http://www.w3.org",
    "https://meet.google.com",
    "https://teams.microsoft.com",
    "https://zoom.us",
    "https://meet.example.org",
)


async def get(path: str, *, openapi_url: str | None = "/openapi.json") -> httpx.Response:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=openapi_url)
    page.install(app)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://botpool.test") as client:
        return await client.get(path)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
async def test_a_file_is_served_under_the_policy(file: Path) -> None:
    name = file.relative_to(STATIC).as_posix()
    path = {"index.html": "/", "docs.html": "/docs"}.get(name, f"/{name}")
    answer = await get(path)
    assert (answer.status_code, answer.content) == (200, file.read_bytes())
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_file_is_named_that_is_not_there() -> None:
    for file in FILES:
        found = re.findall(r'(?:from|src=|href=)\s*"([^"#]+\.(?:js|css|svg))"', file.read_text())
        base = file.parent if file.suffix == ".js" else STATIC
        assert [name for name in found if not (base / name).exists()] == [], file.name


def test_nothing_is_asked_of_others() -> None:
    for file in FILES:
        addresses = re.findall(r"https?://[\w.-]+", file.read_text())
        assert [each for each in addresses if each not in NOT_ASKED] == [], file.name


def test_files_are_small() -> None:
    assert [file.name for file in FILES if len(file.read_text().splitlines()) > 250] == []


async def test_without_the_document_there_is_no_page_of_it() -> None:
    assert (await get("/docs", openapi_url=None)).status_code == 404
