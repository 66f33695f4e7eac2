"""`memeloom templates`: Recognise the template that a picture is made on."""

import click

from cli.session import Session


@click.command(name="templates", short_help="Recognise the template that a picture is made on.")
@click.pass_obj
def command(session: Session) -> None:
    """Recognise the template that a picture is made on.

    Memes with an image and no known template are compared with the pictures of the templates in the catalog.
    """
    from templates.stage import match_memes

    session.run("templates", session.config(), match_memes)
