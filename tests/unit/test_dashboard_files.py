"""The dashboard's static files: policy headers, references and size."""

import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from botpool.dashboard import static_files

STATIC = Path(str(files("botpool.dashboard") / "static"))
FILES = [path for path in STATIC.rglob("*") if path.is_file()]
# The SVG namespace, and examples of meeting links.
ALLOWED_ADDRESSES = (
    "http://www.w3.org",
    "https://meet.google.com",
    "https://teams.microsoft.com",
    "https://zoom.us",
    "https://meet.example.org",
)


async def get(path: str, *, openapi_url: str | None = "/openapi.json") -> httpx.Response:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=openapi_url)
    static_files.add_routes(app)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://botpool.test") as client:
        return await client.get(path)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
async def test_every_file_is_served_with_the_content_security_policy(file: Path) -> None:
    name = file.relative_to(STATIC).as_posix()
    path = {"index.html": "/", "docs.html": "/docs"}.get(name, f"/{name}")
    response = await get(path)
    assert (response.status_code, response.content) == (200, file.read_bytes())
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


def test_files_refer_only_to_existing_files() -> None:
    for file in FILES:
        found = re.findall(r'(?:from|src=|href=)\s*"([^"#]+\.(?:js|css|svg))"', file.read_text())
        base = file.parent if file.suffix == ".js" else STATIC
        assert [name for name in found if not (base / name).exists()] == [], file.name


def test_files_name_no_other_origin() -> None:
    for file in FILES:
        addresses = re.findall(r"https?://[\w.-]+", file.read_text())
        assert [each for each in addresses if each not in ALLOWED_ADDRESSES] == [], file.name


def test_files_are_small() -> None:
    assert [file.name for file in FILES if len(file.read_text().splitlines()) > 250] == []


async def test_docs_page_is_absent_without_an_openapi_document() -> None:
    assert (await get("/docs", openapi_url=None)).status_code == 404
