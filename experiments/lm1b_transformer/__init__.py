"""LM1B (two slices) with a transformer."""
