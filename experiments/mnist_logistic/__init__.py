"""MNIST with logistic regression."""
