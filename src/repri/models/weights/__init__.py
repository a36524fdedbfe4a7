"""Weights: file formats, known files, the embedded model."""
