"""Run a cluster until Ctrl-C, to try things out or to run tests again and again on it.

    .venv/bin/python -m tests.support.kubernetes [DIRECTORY]

Tests with `BOTPOOL_TEST_CLUSTER=DIRECTORY` use it, and so does any client with its
kubeconfig.
"""

# ruff: noqa: T201

import signal
import sys
import tempfile
from pathlib import Path

from tests.support.kubernetes.sharing import shared_cluster


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    run_dir = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="botpool-run-"))
    with shared_cluster(run_dir) as cluster:
        print(f"export BOTPOOL_TEST_CLUSTER={run_dir} KUBECONFIG={cluster.kubeconfig}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("Stopping the cluster ...")


if __name__ == "__main__":
    main()
