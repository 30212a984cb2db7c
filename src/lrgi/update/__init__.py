"""A graph that grows and changes under a run: what is new, what it touches, and only that made again."""
