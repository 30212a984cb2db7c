"""Processes that fit one encoder together: what they send each other. Knows of tensors, and of nothing else."""
