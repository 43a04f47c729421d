"""Streams of sparse rows: readers of text, model files, and the commands that use them."""
