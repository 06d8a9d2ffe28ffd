"""Sweeps as wholes: which of their jobs are finished already, and how they compare."""
