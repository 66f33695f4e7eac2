"""What every command needs: the settings, a progress that fits the terminal, and the record of the run."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memeloom.configs.errors import MemeloomError

if TYPE_CHECKING:  # `memeloom --help` must not wait for pydantic
    from collections.abc import Callable, Mapping

    from memeloom.configs.progress import Progress
    from memeloom.configs.runs import Summary
    from memeloom.configs.schema import Config


class Session:
    """One call of the command line."""

    def __init__(self, path: Path | None = None, overrides: tuple[str, ...] = (), debug: bool = False) -> None:
        self.path = path
        self.overrides = overrides
        self.debug = debug

    def config(self, *more: str, options: Mapping[str, object] | None = None) -> Config:
        """The resolved settings.

        more: overrides that a command's own options stand for. options: values of such options by ``section.key``,
        just as they were typed; None is of an option that was not.
        """
        from memeloom.configs.load import load_config

        typed = {
            key: str(value) if isinstance(value, Path) else value
            for key, value in (options or {}).items()
            if value is not None
        }
        return load_config(self.path, [*self.overrides, *more], options=typed)

    def run(self, stage: str, config: Config, work: Callable[[Config, Progress], Summary]) -> Summary:
        """Run one stage: show its progress and its summary, and leave its run folder behind.

        A run folder is written for failed runs too: its `error` says why.
        """
        from memeloom.cli.progress import open_progress
        from memeloom.cli.summary import show_summary
        from memeloom.configs.load import masked, write_config
        from memeloom.configs.runs import Summary, write_run

        started, clock = datetime.now(UTC), time.perf_counter()
        folder = Path(config.runs) / f"{started:%Y%m%dT%H%M%S}-{stage}"
        write_config(folder / "config.yaml", config)
        with open_progress() as progress:
            try:
                summary = work(config, progress)
            except (Exception, KeyboardInterrupt) as error:
                said = str(error) if isinstance(error, MemeloomError) else f"{type(error).__name__}: {error}"
                done = (error.summary if isinstance(error, MemeloomError) else None) or Summary(stage=stage)
                outputs = {**done.outputs, "error": said}
                failed = replace(done, outputs=outputs, seconds={"total": _since(clock)})
                write_run(folder, failed, masked(config))
                raise
        if "total" not in summary.seconds:
            summary = replace(summary, seconds={**summary.seconds, "total": _since(clock)})
        record = write_run(folder, summary, masked(config))
        show_summary(summary, record)
        return summary


def _since(clock: float) -> float:
    return round(time.perf_counter() - clock, 3)
