"""The data sets: read from the user's copy, or fetched from their homes and checked."""
