"""`memeloom completion`: the script that completes our commands in a shell."""

import click
from click.shell_completion import get_completion_class


@click.command(short_help="Print the shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL; for bash: eval "$(memeloom completion bash)" in ~/.bashrc."""
    from memeloom.cli.main import cli

    completion = get_completion_class(shell)
    if completion is None:
        raise click.BadParameter(f"no completion for {shell}")
    click.echo(completion(cli, {}, "memeloom", "_MEMELOOM_COMPLETE").source())
