"""The road from an image to labelled cells: extractor, view, labels, store."""
