"""What a component says, as a person or a screen reader takes it in."""

from dash.development.base_component import Component

__all__ = ["attributes", "find_all", "text"]


def _parts(node):
    children = getattr(node, "children", None)
    if children is None:
        return []
    return children if isinstance(children, list | tuple) else [children]


def text(node):
    """All the text, in order, with blanks between blocks."""
    if node is None:
        return ""
    if isinstance(node, str | int | float):
        return str(node)
    if isinstance(node, list | tuple):
        return " ".join(filter(None, (text(part) for part in node)))
    return " ".join(filter(None, (text(part) for part in _parts(node))))


def find_all(node, kind):
    """All components of one kind, in order."""
    if isinstance(node, list | tuple):
        return [found for part in node for found in find_all(part, kind)]
    if not isinstance(node, Component):
        return []
    own = [node] if isinstance(node, kind) else []
    return own + [found for part in _parts(node) for found in find_all(part, kind)]


def attributes(node, name):
    """The values of one attribute over a tree."""
    found = find_all(node, Component)
    return [getattr(each, name) for each in found if getattr(each, name, None) is not None]
