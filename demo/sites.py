"""The copies of all sources: the `SITE` in `<source>_site.py`."""

from collections.abc import Mapping
from importlib import import_module

from memeloom.configs.sources import known_sources
from memeloom.demo.context import Host
from memeloom.demo.site import Site

SITES: Mapping[str, Site] = {name: import_module(f"memeloom.demo.{name}_site").SITE for name in known_sources()}
# `inside` is private, `control` steers the server.
HOSTS: tuple[Host, ...] = (*(host for site in SITES.values() for host in site.hosts), "inside", "control")
IMAGE_HOSTS: frozenset[Host] = frozenset(host for site in SITES.values() for host in site.image_hosts)
