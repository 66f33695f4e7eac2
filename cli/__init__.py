"""The `memeloom` command: one small module a command, each a thin call of a room."""
