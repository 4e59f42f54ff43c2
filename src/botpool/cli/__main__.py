"""`python -m botpool.cli`: the `botpool` command, where it is not on the PATH."""

import sys

from botpool.cli import main

if __name__ == "__main__":
    sys.exit(main())
