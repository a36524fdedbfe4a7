"""The addresses that the server answers, grouped by subject."""
