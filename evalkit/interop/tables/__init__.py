"""Read a table of verdicts: types of columns first, then keys, then roles; an open
question is a result.
"""
