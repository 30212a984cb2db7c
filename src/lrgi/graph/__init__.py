"""What a graph is and where its rows live; chooses no nodes."""
