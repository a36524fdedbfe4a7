"""Few-shot tasks."""
