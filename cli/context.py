"""What every command works with: the settings, and a stage run with its progress, summary and record."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memeloom.configs.errors import MemeloomError
from memeloom.configs.extras import require

if TYPE_CHECKING:  # `memeloom --help` must not wait for pydantic
    from collections.abc import Callable

    from memeloom.cli.metrics import Metrics
    from memeloom.configs.progress import Progress
    from memeloom.configs.runs import Summary
    from memeloom.configs.schema import Config


@dataclass
class CommandContext:
    """One call of the command line.

    path: the settings file or preset of ``--config``. overrides: the ``KEY=VALUE`` of ``--set``.
    settings: values of a command's own options by ``section.key``, as they were typed.
    redact: masks the secrets of the settings in a text; set by `config`. metrics: set by `run` if they are on.
    json_stage: the stage that JSON lines of the log name; None if the log is text.
    """

    path: Path | None = None
    overrides: list[str] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)
    debug: bool = False
    redact: Callable[[str], str] = str
    metrics: Metrics | None = None
    json_stage: str | None = None

    def config(self) -> Config:
        """Return the resolved settings.

        Raises:
            ConfigError: a setting is unknown or cannot be used.
        """
        from memeloom.configs.load import load_config
        from memeloom.configs.masks import Redactor

        config = load_config(self.path, self.overrides, options=self.settings)
        self.redact = Redactor(config)
        self.json_stage = None
        if config.log.format == "json":
            from memeloom.configs.logs import formatter_of, log_to_stderr

            called = click.get_current_context(silent=True)
            self.json_stage = called.command_path.split()[1] if called and called.parent else "memeloom"
            log_to_stderr(formatter_of(config, self.json_stage))
        return config

    def log(self, message: str, *, level: str = "info", **fields: object) -> bool:
        """Write a JSON line to standard error, secrets masked, if the log has that format. Returns whether it has."""
        if self.json_stage is None:
            return False
        from memeloom.configs.logs import json_line

        click.echo(json_line(self.json_stage, message, level=level, redact=self.redact, **fields), err=True)
        return True

    def run(self, stage: str, config: Config, work: Callable[[Config, Progress], Summary]) -> Summary:
        """Run one stage, show its progress and summary, and write its run folder, also after an error."""
        from memeloom.cli.progress import open_progress
        from memeloom.cli.summary import show_summary
        from memeloom.configs.load import masked, write_config
        from memeloom.configs.runs import Summary, write_run

        clock = time.perf_counter()
        metrics = self._metrics(config)
        if metrics:
            metrics.begin(stage)
        folder = new_run_folder(Path(config.runs), stage)
        write_config(folder / "config.yaml", config)
        with open_progress(config.log.format) as progress:
            try:
                summary = work(config, metrics.follow(progress) if metrics else progress)
            except (Exception, KeyboardInterrupt) as error:
                message = str(error) if isinstance(error, MemeloomError) else f"{type(error).__name__}: {error}"
                known = getattr(error, "summary", None)
                done = known if isinstance(known, Summary) else Summary(stage=stage)
                failed = replace(
                    done, outputs={**done.outputs, "error": self.redact(message)}, seconds={"total": _since(clock)}
                )
                write_run(folder, failed, masked(config))
                if metrics:
                    metrics.end(stage, done, failed=True)
                raise
        if metrics:
            metrics.end(stage, summary, failed=False)
        if "total" not in summary.seconds:
            summary = replace(summary, seconds={**summary.seconds, "total": _since(clock)})
        record = write_run(folder, summary, masked(config))
        facts = {name: value for name, value in asdict(summary).items() if name != "stage"}
        if not self.log("run ended", **facts, run_record=str(record)):
            show_summary(summary, record)
        return summary

    def _metrics(self, config: Config) -> Metrics | None:
        """Return what serves `metrics.port`, the same for all runs of this process; None if that is off."""
        if self.metrics is None and config.metrics.port is not None:
            require("metrics")
            from memeloom.cli.metrics import Metrics

            self.metrics = Metrics(config, config.metrics.port)
        return self.metrics

    def preview(self, config: Config, work: Callable[[Config, Progress], Summary]) -> None:
        """Do the dry run of a stage, and show its progress and summary; there is no run folder."""
        from memeloom.cli.progress import open_progress
        from memeloom.cli.summary import show_summary

        with open_progress() as progress:
            summary = work(config, progress)
        show_summary(summary, None)


def check_blobs(config: Config) -> None:
    """Check that the blob store answers, which a run without work would not notice.

    Raises:
        StoreUnavailable: it does not answer within `store.timeout_seconds`.
    """
    from memeloom.catalog.errors import StoreError, StoreUnavailable
    from memeloom.catalog.stores import open_blobs

    with closing(open_blobs(config.store)) as blobs:
        try:
            blobs.has("0" * 64)
        except StoreUnavailable:
            raise
        except StoreError:  # a restricted key may lack only the right to do this
            return


def new_run_folder(runs: Path, stage: str) -> Path:
    """Create a folder in `runs` named by time and stage, numbered if taken.

    Raises:
        MemeloomError: the folder cannot be created.
    """
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{stage}"
    for number in count(2):
        folder = runs / name
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            name = f"{name.removesuffix(f'-{number - 1}')}-{number}"
        except OSError as error:
            raise MemeloomError(f"cannot write {folder}: {error.strerror}") from error
        else:
            return folder
    raise AssertionError


def _since(clock: float) -> float:
    return round(time.perf_counter() - clock, 3)
