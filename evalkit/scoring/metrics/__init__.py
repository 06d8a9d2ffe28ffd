"""One module per subject of metrics, and `metric_registry`, the lists of the functions
that compute them.
"""
