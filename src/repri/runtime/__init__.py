"""Helpers that every program needs: files, settings, downloads, processes. They know nothing of the rest of repri."""
