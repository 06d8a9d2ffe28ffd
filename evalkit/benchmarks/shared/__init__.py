"""What modules of benchmarks share: the definition of a benchmark, blocks of scoring
rules, contests with a baseline.

It imports `foreign_files`, `datasets` and `scoring`. Benchmarks, importers and gates import it.
"""
