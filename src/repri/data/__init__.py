"""§4: images and masks."""
