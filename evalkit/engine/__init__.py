"""Turn planned requests into stored completions.

Only this package waits, retries, limits and spends.
"""
