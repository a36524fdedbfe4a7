"""Data sets: images with masks, classes, folds."""
