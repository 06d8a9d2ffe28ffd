"""Files of other projects: `judgment_files` has their rows, `layouts` the cells of a
row, `records` the judgments.

It imports `datasets` and `parsing`. Benchmarks, importers and labels import it.
"""
