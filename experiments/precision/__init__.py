"""What fewer bits cost on real training, and what ``lr`` had better multiply."""
