"""From judgments to verdicts: margins, orders, samples, tie rules, and the votes of a panel."""
