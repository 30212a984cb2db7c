"""One hop of aggregation and projection: f_(l), and the propagation g."""
