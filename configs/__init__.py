"""Settings: the YAML files, the typed schema they are checked against, and what every run leaves behind."""
