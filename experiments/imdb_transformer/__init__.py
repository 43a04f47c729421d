"""IMDB with a transformer."""
