"""Words of the former dialect, listed in decision 0030, appear nowhere else."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "decisions" / "0030-one-vocabulary.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
"""Names the former words in its column "not called"."""
EXEMPT = ("docs/decisions/", "CHANGELOG.md", "docs/glossary.md")
TEXT = {".css", ".html", ".js", ".md", ".py", ".sh", ".sql", ".toml", ".yaml", ".yml", ""}


def former_words() -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", RECORD.read_text(), re.MULTILINE)
    return [word for row in rows[1:] for word in row.split(", ")]


def files() -> list[Path]:
    """Every text file of the repository, also before it is committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.splitlines() if not name.startswith(EXEMPT)]
    paths = [ROOT / name for name in names]
    return [path for path in paths if path.suffix in TEXT and path.is_file()]


def test_no_former_word_is_used() -> None:
    words = former_words()
    assert len(words) >= 50
    # An underscore separates words too, so that identifiers count.
    pattern = re.compile(
        rf"(?<![A-Za-z])(?:{'|'.join(word.replace(' ', '[ _]') for word in words)})(?![A-Za-z])",
        re.IGNORECASE,
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for match in pattern.finditer(line)
    ]
    assert not found, "\n".join(found[:50])
