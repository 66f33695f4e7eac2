"""The feed: memes that people scroll through and vote on."""
