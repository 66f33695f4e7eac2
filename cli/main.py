"""The `memeloom` command: global options, the list of commands, and how errors reach the user."""

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from memeloom.cli.session import Session
from memeloom.configs.errors import MemeloomError

_COMMANDS = {
    "crawl": "memeloom.cli.crawl",
    "import": "memeloom.cli.import_dumps",
    "ocr": "memeloom.cli.ocr",
    "templates": "memeloom.cli.templates",
    "build-dataset": "memeloom.cli.build_dataset",
    "dataset": "memeloom.cli.dataset",
    "train": "memeloom.cli.train",
    "generate": "memeloom.cli.generate",
    "evaluate": "memeloom.cli.evaluate",
    "export-model": "memeloom.cli.export_model",
    "stats": "memeloom.cli.stats",
    "export": "memeloom.cli.export",
    "purge": "memeloom.cli.purge",
    "demo": "memeloom.cli.demo",
    "completion": "memeloom.cli.completion",
}


class _LazyGroup(click.Group):
    """Imports a command's module when that command is named or listed, in the order of the way of the data."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(_COMMANDS[cmd_name]).command
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    help="YAML file, or a preset's name (memefly); names only what differs from default.",
)
@click.option(
    "-s", "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="One setting: -s crawl.max_memes=100."
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.version_option(package_name="memeloom", message="%(package)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, config: Path | None, overrides: tuple[str, ...], debug: bool) -> None:
    """Turn the meme web into training data, and the data into a model that captions images.

    The way of the data: crawl or import, ocr, templates, build-dataset, train, generate.
    """
    ctx.obj = Session(config, overrides, debug)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit 0 when done, 1 when it failed, 2 on bad usage or settings, 130 on Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code = cli.main(args=arguments, prog_name="memeloom", standalone_mode=False)
    except click.exceptions.Abort:
        _leave("interrupted", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except MemeloomError as error:
        if "--debug" in arguments:
            raise
        _leave(" ".join(str(error).split("\n")), error.exit_code)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has gone (`memeloom stats | head`); Python must not complain about it on exit.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if "--debug" in arguments:
            raise
        _leave(f"unexpected {type(error).__name__}: {error} (run with --debug for the traceback)", 1)
    sys.exit(_exit_code(code))


def _exit_code(code: Any) -> int:
    return code if isinstance(code, int) else 0


def _leave(text: str, code: int) -> None:
    click.secho(f"memeloom: {text}", fg="red", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
