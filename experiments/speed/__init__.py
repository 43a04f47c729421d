"""Iterations per second of whole training."""
