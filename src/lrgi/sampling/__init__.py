"""Which nodes take part in a step: ids and edges, never features."""
