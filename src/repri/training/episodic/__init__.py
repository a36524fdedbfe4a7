"""Episodic training: a method learns from tasks of base classes, on stored features of a frozen extractor."""
