"""`botpool` of a next version, which has further migrations: `next_version.py <folder> serve …`."""

import sys
from pathlib import Path

from botpool.cli import main
from botpool.store import migrations

if __name__ == "__main__":
    migrations.MIGRATIONS = Path(sys.argv.pop(1))
    sys.exit(main())
