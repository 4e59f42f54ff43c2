"""The decision records: each with a date and a status, and all of them in the sorted list."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("0*.md"))
_ROW = re.compile(
    r"^\| \[(\d{4})\]\((\S+\.md)\) \| (.+) \| (\d{4}-\d\d-\d\d) \| (.+) \|$", re.MULTILINE
)


def test_list_names_every_record_once_and_in_order() -> None:
    listed = [name for _, name, *_ in _ROW.findall((FOLDER / "README.md").read_text())]
    assert listed == [record.name for record in RECORDS]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_record_and_list_agree_on_date_and_status(record: Path) -> None:
    rows = {name: row for _, name, *row in _ROW.findall((FOLDER / "README.md").read_text())}
    _, date, listed = rows[record.name]
    text = record.read_text()
    assert re.search(r"^- Date: (\S{10})\b", text, re.MULTILINE)[1] == date  # type: ignore[index]
    status = re.search(r"^- Status: (.+)$", text, re.MULTILINE)
    assert status
    assert re.split(r"[ ;]", status[1])[0] == listed.split()[0]
    for other in re.findall(r"\]\((\S+\.md)\)", listed):
        assert other[:4] in text, f"the record does not name {other}"
