"""What experiments share: tables that say where they come from, and a pool with a progress bar."""
