"""From judgments to verdicts: margins, orders, samples, tie rules, and the votes of a panel.

The modules return columns; `verdict_objects` makes each `Verdict` from them, and
`scoring/verdict_rules.py` chooses the module.
"""
