"""How work meets the machine: threads, matrix products, the allocator. Knows no graph."""
