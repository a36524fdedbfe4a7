"""The web page of repri: annotate a few images of a folder, watch the others being segmented."""
