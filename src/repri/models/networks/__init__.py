"""Networks that turn images into named feature maps (§3.2)."""
