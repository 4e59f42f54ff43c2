"""`python -m botpool.cli`: the command, where it is not on the path."""

import sys

from botpool.cli import main

if __name__ == "__main__":
    sys.exit(main())
