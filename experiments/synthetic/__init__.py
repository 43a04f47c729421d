"""Figure 1 of the paper: absolute loss on ill-conditioned Gaussian rows."""
