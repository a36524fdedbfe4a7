"""What every program has: files, settings, downloads, processes. Knows nothing of the rest of repri."""
