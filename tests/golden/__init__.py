"""Golden runs: finished runs from stored answers, compared with committed files."""
