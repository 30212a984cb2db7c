"""Experiments as data: TOML files, the command that runs them, and the tables made of their records."""
