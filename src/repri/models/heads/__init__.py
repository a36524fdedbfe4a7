"""Small modules on frozen features."""
