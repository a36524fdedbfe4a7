"""§3.2: feature extractors."""
