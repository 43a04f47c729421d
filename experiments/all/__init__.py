"""Every experiment, and the report."""
