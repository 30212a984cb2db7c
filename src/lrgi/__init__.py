"""LRGI: node embeddings for big graphs, one layer at a time."""
