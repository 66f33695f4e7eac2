"""The tables of `memeloom templates list` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memeloom.cli.reading import printable

if TYPE_CHECKING:  # loaded by the command only when it lists
    from collections.abc import Sequence
    from pathlib import Path

    from memeloom.templates.curate import Listed


def show_templates(listed: Sequence[Listed]) -> None:
    """Print a row for each template."""
    from rich.table import Table

    from memeloom.cli.summary import console, number

    out = console()
    if not listed:
        out.print("no templates")
        return
    table = Table(title=f"templates ({len(listed):,})", title_justify="left", title_style="bold")
    for column in ("id", "name"):
        table.add_column(column, overflow="fold")
    for column in ("state", "memes", "first seen", "merged into"):
        table.add_column(column, justify="right" if column == "memes" else "left")
    for each in listed:
        template = each.template
        seen = f"{template.first_seen:%Y-%m-%d}" if template.first_seen else ""
        into = printable(template.merged_into or "")
        table.add_row(printable(template.id), printable(template.name), each.state, number(each.members), seen, into)
    out.print(table)


def show_template(listed: Listed, page: Path) -> None:
    """Print what is known of a template, and where its page is."""
    from rich.table import Table

    from memeloom.cli.summary import console, number

    template = listed.template
    facts = {
        "id": template.id,
        "slug": template.slug,
        "also called": ", ".join(template.alt_names),
        "state": listed.state,
        "merged into": template.merged_into,
        "source": template.source,
        "first seen": f"{template.first_seen:%Y-%m-%d %H:%M}" if template.first_seen else None,
        "memes": number(listed.members),
        "text boxes": number(len(template.boxes)) if template.boxes else None,
        "picture": template.image.key if template.image else None,
        "made from memes": template.clean.image.key if template.clean else None,
    }
    table = Table(title=printable(template.name), title_justify="left", title_style="bold", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        if fact:
            table.add_row(name, printable(fact))
    out = console()
    out.print(table)
    out.print(f"page: {page}", soft_wrap=True, markup=False, highlight=False)
