"""Shaping numbers for a person: tables, and the rows of the final one."""
