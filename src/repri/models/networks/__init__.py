"""The networks that features come from."""
