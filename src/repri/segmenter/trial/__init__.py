"""How well would it work on these images? Draw supports, segment the other annotated images, score them."""
