"""Probability maps at the image's own size, with borders that follow the image."""
