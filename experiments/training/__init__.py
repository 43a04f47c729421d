"""The deep-learning experiments' harness: networks, batches, a loop, tables, figures, verdicts."""
