"""The stages of a run, an import, a sweep and a gate, in order."""
