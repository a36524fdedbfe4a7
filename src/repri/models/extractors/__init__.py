"""Feature extractors: a network, fixed filters, and extractors that are made of others."""
