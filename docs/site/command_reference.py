"""Generate the reference of the command line from the commands: a page for each, with its subcommands."""

import re
from collections.abc import Iterator

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from memeloom.cli.main import cli
from memeloom.cli.options import GLOBAL_OPTIONS
from memeloom.configs.describe import defaults

# The setting of an option, as its help ends: (crawl.max_memes, default 5).
_SETTING = re.compile(r" \((?P<key>[a-z0-9_.]+)(?P<default>, default (?P<value>.*))?\)(?P<rest> \[.*\])?$")
_HEAD = """# Commands

`memeloom COMMAND --help` prints the same. Exit codes are 0 done, 1 failed, 2 bad usage or settings, 130 interrupted.

| command | what it does |
| --- | --- |
"""
_GLOBAL = "## Options of every command\n\nThey stand before or after the command.\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of commands."""
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/commands/{name}.md", content=text))
    return files


def pages() -> dict[str, str]:
    """Return the Markdown of each page: an overview, and a page a command."""
    root = click.Context(cli, info_name="memeloom")
    commands = [(name, command) for name in cli.list_commands(root) if (command := cli.get_command(root, name))]
    rows = "".join(f"| [`{name}`]({name}.md) | {command.get_short_help_str(200)} |\n" for name, command in commands)
    options = "".join(_option(option.get_help_record(root)) for option in GLOBAL_OPTIONS)
    texts = {"index": f"{_HEAD}{rows}\n{_GLOBAL}{options}"}
    for name, command in commands:
        context = click.Context(command, parent=root, info_name=name)
        texts[name] = "\n".join(_command(command, context, "#"))
    return texts


def _command(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    """Yield the parts of a command, and of its subcommands."""
    path = context.command_path.removeprefix("memeloom ")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"{level} {path}\n\n```text\n{usage}\n```\n\n{_paragraphs(command.help or '')}\n"
    # Arguments have no help of their own: the command's names them.
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    own = [each for each in options if each not in GLOBAL_OPTIONS and "--help" not in each.opts]
    yield "".join(_option(each.get_help_record(context)) for each in own)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                yield from _command(inner, click.Context(inner, parent=context, info_name=name), level + "#")


def _paragraphs(text: str) -> str:
    r"""Return help as Markdown; a paragraph after ``\b`` keeps its lines."""
    parts = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(_kept(each) if "\b" in each else _escaped(" ".join(each.split())) for each in parts)


def _kept(text: str) -> str:
    return "```text\n" + text.strip().removeprefix("\b").strip("\n") + "\n```"


def _option(record: tuple[str, str] | None) -> str:
    assert record is not None
    names, text = record
    text = " ".join(text.split())
    match = _SETTING.search(text)
    if match and match["key"] in defaults():
        section, _, _ = match["key"].partition(".")
        page = "index" if section == match["key"] else section
        value = f", default `{match['value']}`" if match["value"] else ""
        text = f"{_escaped(text[: match.start()])} ([`{match['key']}`](../settings/{page}.md#{match['key']}){value})"
        text += _escaped(match["rest"] or "")
    else:
        text = _escaped(text)
    return f"`{names}`\n:   {text or '–'}\n\n"


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>\[\]`|~\\])", r"\\\1", text)
