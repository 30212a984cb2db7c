"""Processes that fit one encoder together: what they send each other. Knows tensors, nothing else."""
