"""One build in its own process: `python -m bench.dataset_worker CATALOG OUTPUT [KEY=VALUE …]`.

Prints counts, seconds by phase and processor seconds with all workers, as one line of JSON.
"""

import json
import resource
import sys


def main() -> None:
    """Build and print the figures."""
    # Here, since workers import the module of the main process: as with `memeloom`, they load only what they need.
    from memeloom.configs.load import load_config
    from memeloom.configs.progress import Progress
    from memeloom.dataset.build import build_dataset

    catalog, output, *settings = sys.argv[1:]
    places = [f"store.documents=sqlite:///{catalog}", f"dataset.output={output}"]
    summary = build_dataset(load_config(overrides=[*places, *settings], environment={}), Progress())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    told = {"counts": summary.counts, "reasons": summary.reasons, "seconds": summary.seconds, "cpu_seconds": cpu}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
