"""One file per foreign format, the only files that import it."""
