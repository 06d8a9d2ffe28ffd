"""Evaluators: what to ask a judge, and how to read its answers."""
