"""Tables of nodes and edges, larger than memory if need be: DuckDB reads, joins and sorts them."""
