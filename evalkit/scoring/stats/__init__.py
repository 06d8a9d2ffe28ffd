"""Pure statistics: arrays, clusters and their resamples, tests of paired runs,
regressions; no verdicts.
"""
