"""Log lines: as text or as JSON, in all processes, with secrets masked."""

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from memeloom.configs.load import load_config
from memeloom.configs.logs import JsonFormatter, formatter_of, json_line, log_to_stderr, stderr_formatter
from memeloom.configs.schema import Config
from memeloom.engine.pool import try_partitions
from memeloom.engine.supervisor import Guard

SECRET = 'hünter"22'


@pytest.fixture
def config() -> Config:
    overrides = ["log.format=json", f"store.s3.secret_key='{SECRET}'", "engine.workers=1"]
    return load_config(overrides=overrides, environment={})


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    root.handlers[:] = before
    logging.captureWarnings(capture=False)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_record_and_its_traceback_are_one_line_without_secrets(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr(formatter_of(config, "serve"))
    log_to_stderr(formatter_of(config, "ocr"))  # replaces the first
    try:
        raise ValueError(f"key {SECRET} refused")
    except ValueError:
        logging.getLogger("a.library").exception("it failed:\n%s", SECRET)
    logging.getLogger("a.library").info("not shown")
    (line,) = lines(capsys.readouterr().err)
    assert line.pop("time").endswith("+00:00")
    assert line.pop("exception").endswith("ValueError: key ******** refused")
    assert line == {"level": "error", "stage": "ocr", "message": "it failed:\n********", "logger": "a.library"}


def test_secrets_are_masked_in_nested_fields_and_controls_escaped() -> None:
    written = json_line("x", "m\x1b", redact=lambda text: text.replace(SECRET, "***"), counts={"a": [SECRET, 1]})
    assert "\x1b" not in written
    assert json.loads(written)["counts"] == {"a": ["***", 1]}


class _Warns:
    def __call__(self, number: int) -> int:
        logging.getLogger("worker").warning("number %s of %s", number, SECRET)
        return number


def _open() -> _Warns:
    return _Warns()


def test_worker_processes_write_what_their_parent_writes(config: Config, capfd: pytest.CaptureFixture[str]) -> None:
    log_to_stderr(formatter_of(config, "ocr"))
    assert isinstance(stderr_formatter(), JsonFormatter)
    assert list(try_partitions(_open, [7], config.engine, Guard(30, 1000))) == [(7, 7)]
    sys.stderr.flush()
    (line,) = lines(capfd.readouterr().err)
    assert (line["stage"], line["level"], line["message"]) == ("ocr", "warning", "number 7 of ********")
