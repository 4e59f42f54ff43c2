"""`botpool` with leases of an hour, so that a lease that is not returned blocks its slot."""

import sys
from dataclasses import replace

from botpool import app
from botpool.cli import main
from botpool.domain.policy import Policy
from botpool.settings import Settings

LEASE_S = 3600.0
policy_of = app.policy_of


def with_long_leases(settings: Settings) -> Policy:
    return replace(policy_of(settings), lease_s=LEASE_S)


if __name__ == "__main__":
    app.policy_of = with_long_leases
    sys.exit(main())
