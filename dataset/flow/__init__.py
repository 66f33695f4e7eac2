"""The stages of a build."""
