"""The networks by name. To add one: a module with `open_network`, a line, and its name in the settings."""

from importlib import import_module

from memeloom.serve.publishing.contract import Network, OpenNetwork

_MODULES = {
    "bluesky": "memeloom.serve.publishing.networks.bluesky",
    "mastodon": "memeloom.serve.publishing.networks.mastodon",
}


def open_network(name: str, server: str, user: str, token: str, seconds: float) -> Network:
    """Open an account; nothing is sent yet. seconds: deadline of a request."""
    opened: OpenNetwork = import_module(_MODULES[name]).open_network
    return opened(server, user, token, seconds)
