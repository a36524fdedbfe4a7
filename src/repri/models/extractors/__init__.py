"""Feature extractors that are made of others, or of fixed filters."""
