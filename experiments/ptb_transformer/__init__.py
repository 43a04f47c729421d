"""Penn Treebank with a transformer."""
