"""Heads: modules on frozen features, trained with the labels of base classes (§3.2)."""
