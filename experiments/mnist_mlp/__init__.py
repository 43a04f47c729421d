"""MNIST with a fully connected network."""
