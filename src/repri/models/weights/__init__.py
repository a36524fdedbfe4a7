"""Weights: files and their formats, known files, and the embedded model."""
