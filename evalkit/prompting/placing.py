"""What a template does with the texts that are put into it: places them as they are, or more than that."""

from __future__ import annotations

from collections.abc import Iterable, Set

from jinja2 import nodes

# What is written inside these may be changed on its way out, or be written elsewhere.
_CHANGING = (nodes.FilterBlock, nodes.CallBlock, nodes.AssignBlock, nodes.Macro, nodes.ScopedEvalContextModifier)
_PASSING = (nodes.Template, nodes.Block, nodes.For)


def asked_for(trees: Iterable[nodes.Template], texts: Set[str]) -> frozenset[str] | None:
    """Return those of `texts` that the templates ask whether they are empty, if that and placing them is all they do.

    None, where a text may be looked at or changed: then only filling the template tells what becomes of it.
    """
    asked: set[str] = set()
    for tree in trees:
        if next(tree.find_all(_CHANGING), None) is not None or _calls_blocks(tree):
            return None
        if not _only_places(tree, texts, asked):
            return None
    return frozenset(asked)


def _calls_blocks(tree: nodes.Template) -> bool:
    """Say whether a block is called, but to be written as it is."""
    written = {id(part) for output in tree.find_all(nodes.Output) for part in output.nodes}
    supers = (call for call in tree.find_all(nodes.Call) if _is_named(call.node, "super"))
    return any(id(call) not in written for call in supers) or any(
        name.name == "self" for name in tree.find_all(nodes.Name)
    )


def _is_named(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name


def _only_places(node: nodes.Node, texts: Set[str], asked: set[str]) -> bool:
    if isinstance(node, nodes.Output):
        return all(_is_text(part, texts) or _names_none(part, texts) for part in node.nodes)
    if isinstance(node, nodes.If):
        parts = [*node.body, *node.elif_, *node.else_]
        return _only_asks(node.test, texts, asked) and all(_only_places(part, texts, asked) for part in parts)
    if isinstance(node, _PASSING):
        return all(_only_places(part, texts, asked) for part in node.iter_child_nodes())
    return _names_none(node, texts)


def _only_asks(test: nodes.Node, texts: Set[str], asked: set[str]) -> bool:
    if isinstance(test, nodes.Name) and test.name in texts:
        asked.add(test.name)
        return True
    if isinstance(test, nodes.Not | nodes.And | nodes.Or):
        return all(_only_asks(part, texts, asked) for part in test.iter_child_nodes())
    return _names_none(test, texts)


def _is_text(node: nodes.Node, texts: Set[str]) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name in texts


def _names_none(node: nodes.Node, texts: Set[str]) -> bool:
    return not (isinstance(node, nodes.Name) and node.name in texts) and not any(
        name.name in texts for name in node.find_all(nodes.Name)
    )
