"""Two experts on one image, and how a support chooses between them."""
