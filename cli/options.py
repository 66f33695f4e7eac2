"""Commands whose options are settings: type, choices, range and help come from the settings themselves."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click

from memeloom.cli.context import CommandContext
from memeloom.configs.extras import require

if TYPE_CHECKING:
    from pydantic import BaseModel

# Options whose name is not the last part of their setting's.
_NAMES = {
    "engine.kind": ("--engine",),
    "evaluate.baselines": ("--baseline",),
    "generate.captions": ("-n", "--captions", "--count"),
}
_MOST_SUGGESTED = 3


class DatasetPath(click.Path):
    """The folder of a dataset, or its ``s3://`` address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the address as text."""
        remote = isinstance(value, str) and value.startswith("s3://")
        return value if remote else super().convert(value, param, ctx)


class Command(click.Command):
    """A command that takes the global options, and some settings as options of its own.

    Args:
        settings: the settings that it offers as options, by ``section.key``.
        argument: the setting, a list, that its positional arguments stand for.
        extras: the extras of memeloom that it needs, checked before it runs.
    """

    def __init__(
        self,
        *arguments: Any,
        settings: Sequence[str] = (),
        argument: str | None = None,
        extras: Sequence[str] = (),
        **facts: Any,
    ) -> None:
        super().__init__(*arguments, **facts)
        self._settings = settings
        self._argument = argument
        self._extras = extras

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; those of settings are made when they are first needed, which loads pydantic."""
        *own, help_option = super().get_params(ctx)
        return [*self._generated, *own, *GLOBAL_OPTIONS, help_option]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, after a check of the packages that it needs."""
        for extra in self._extras:
            require(extra)
        return super().invoke(ctx)

    @cached_property
    def _generated(self) -> list[click.Parameter]:
        parameters: list[click.Parameter] = [_option(key) for key in self._settings]
        return [*([_positional(self._argument)] if self._argument else []), *parameters]


class Group(click.Group):
    """A group of such commands; it takes the global options, too."""

    command_class = Command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters."""
        *own, help_option = super().get_params(ctx)
        return [*own, *GLOBAL_OPTIONS, help_option]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named, or suggest one with a similar name."""
        known = self.list_commands(ctx)
        name = args[0]
        if name in known or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"commands are {', '.join(known)}"
        raise click.UsageError(f"no such command: {name!r} ({hint})", ctx)


def _set_path(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        ctx.ensure_object(CommandContext).path = value


def _add_overrides(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    ctx.ensure_object(CommandContext).overrides += value


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.ensure_object(CommandContext).debug |= value


# Taken before and after the command's name; of two files the later one counts, overrides add up.
GLOBAL_OPTIONS: Sequence[click.Option] = (
    click.Option(
        ["-c", "--config"],
        type=click.Path(path_type=Path),
        help="Settings file (YAML), or the name of a preset (memefly).",
        expose_value=False,
        callback=_set_path,
    ),
    click.Option(
        ["-s", "--set", "overrides"],
        multiple=True,
        metavar="KEY=VALUE",
        help="Value of one setting: -s crawl.max_memes=100.",
        expose_value=False,
        callback=_add_overrides,
    ),
    click.Option(
        ["--debug"], is_flag=True, help="Show tracebacks.", expose_value=False, callback=_set_debug
    ),
)  # fmt: skip


def suggested_settings(error: click.NoSuchOption) -> str:
    """Return where the settings are that an unknown option may mean; empty if no setting has its name."""
    from memeloom.configs.describe import defaults

    name = error.option_name.lstrip("-").replace("-", "_")
    command = error.ctx.info_name if error.ctx else None
    keys = [key for key in defaults() if key.rpartition(".")[2] == name]
    keys.sort(key=lambda key: (key.partition(".")[0] != command, key.count(".")))
    if not keys:
        return ""
    return f"Did you mean {' or '.join(f'-s {key}=VALUE' for key in keys[:_MOST_SUGGESTED])}?"


def _option(key: str) -> click.Option:
    from memeloom.configs.describe import defaults, descriptions

    names = _NAMES.get(key) or (f"--{key.rpartition('.')[2].replace('_', '-')}",)
    annotation, limits = _field(key)
    facts: dict[str, Any] = {"type": _type(annotation, limits), "default": None}
    if annotation is bool:
        names = (f"{names[0]}/--no-{names[0][2:]}",)
        facts["type"] = None
    if get_origin(annotation) is tuple:
        facts["multiple"] = True
    default = defaults()[key]
    note = key if default is None else f"{key}, default {_shown(default)}"
    return click.Option(
        [*names, key.replace(".", "__")],
        help=f"{descriptions()[key]} ({note})",
        expose_value=False,
        callback=_store(key),
        **facts,
    )


def _positional(key: str) -> click.Argument:
    annotation, limits = _field(key)
    return click.Argument(
        [key.rpartition(".")[2]], nargs=-1, type=_type(annotation, limits), expose_value=False, callback=_store(key)
    )


def _store(key: str) -> Any:
    def callback(ctx: click.Context, _: click.Parameter, value: object) -> None:
        if value not in (None, ()):
            ctx.ensure_object(CommandContext).settings[key] = value

    return callback


def _field(key: str) -> tuple[Any, Sequence[Any]]:
    """Return a setting's annotation without ``None``, and its limits."""
    from memeloom.configs.schema import Config

    *sections, name = key.split(".")
    model: type[BaseModel] = Config
    for section in sections:
        found = model.model_fields[section].annotation
        assert isinstance(found, type)
        model = found
    field = model.model_fields[name]
    return _plain(field.annotation, field.metadata)


def _plain(annotation: Any, limits: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _plain(inner, [*limits, *(limit for each in more for limit in getattr(each, "metadata", [each]))])
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (each for each in get_args(annotation) if each is not NoneType)
        return _plain(inner, limits)
    return annotation, limits


def _type(annotation: Any, limits: Sequence[Any]) -> click.ParamType[Any]:
    if get_origin(annotation) is tuple:
        return _type(*_plain(get_args(annotation)[0], []))
    if get_origin(annotation) is Literal:
        return click.Choice(get_args(annotation))
    if annotation in (int, float):
        return _range(annotation, limits)
    if "folder" in limits or "file" in limits:
        return click.Path(file_okay="file" in limits, dir_okay="folder" in limits)
    return click.STRING


def _range(kind: type, limits: Sequence[Any]) -> click.ParamType[Any]:
    bounds: dict[str, Any] = {}
    for limit in limits:
        for name in ("ge", "gt", "le", "lt"):
            if (bound := getattr(limit, name, None)) is not None:
                edge = "min" if name.startswith("g") else "max"
                bounds |= {edge: bound, f"{edge}_open": name.endswith("t")}
    if not bounds:
        return click.INT if kind is int else click.FLOAT
    return click.IntRange(**bounds) if kind is int else click.FloatRange(**bounds)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "empty"
