"""Which nodes lie nearest to a node, by the cosine of their embeddings."""
