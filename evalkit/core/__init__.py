"""Utilities for every layer: hashing, sequences, scales and annotations."""
