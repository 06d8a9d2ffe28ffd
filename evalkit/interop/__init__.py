"""Import judgments from other projects' file formats, and export to them.

Nothing here calls a judge.
"""
