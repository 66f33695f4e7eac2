"""The nodes of a Ray cluster on loopback, until this process gets SIGTERM: see `ray_cluster.py`.

Arguments: a folder for sockets and logs, the number of processors of a node, and JSON: the environment of each node.
"""

import json
import signal
import sys
from typing import Any

from ray.cluster_utils import Cluster


def main(folder: str, processors: str, environments: str) -> None:
    """Start the nodes, print the address of the cluster, and wait."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    # The ports of workers are whichever the system gives: from Ray's own range another test may have one.
    # A node ends itself if its agents need more than 15 s to start, so nothing that we do not need starts beside them.
    usual: dict[str, Any] = {
        "num_cpus": int(processors), "object_store_memory": 100_000_000, "min_worker_port": 0, "max_worker_port": 0,
        "include_log_monitor": False, "no_monitor": True,
    }  # fmt: skip
    head, *others = json.loads(environments)
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**usual, "include_dashboard": False, "temp_dir": folder, "env_vars": head},
    )
    try:
        for environment in others:
            cluster.add_node(**usual, env_vars=environment)
        sys.stdout.write(f"{cluster.address}\n")
        sys.stdout.flush()
        signal.pause()
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(*sys.argv[1:])
