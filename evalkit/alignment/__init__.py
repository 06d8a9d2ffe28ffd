"""Find better settings of a judge on train and dev labels, and prove them once on test labels.

`search` fits candidates, `alignment` selects one and proves it. It imports `api` and what lies
below it; only the command line imports it.
"""
