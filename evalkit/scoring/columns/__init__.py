"""Cases and judgments as arrays: what everything above is computed from."""
