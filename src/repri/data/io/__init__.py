"""Images, masks and annotations: read and written."""
