"""`memeloom`, but its engine never looks for requests of its own accord, as it otherwise does every five seconds."""

from scrapy.core.engine import ExecutionEngine

from memeloom.cli.main import main

# The crawling process is spawned, and so imports this module as well.
ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 10_000.0

if __name__ == "__main__":
    main()
