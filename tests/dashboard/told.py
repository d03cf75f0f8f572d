"""What a component says, as one text to look into."""

from dash._utils import to_json

__all__ = ["told_of"]


def told_of(component):
    """As it travels, but for the escapes that a page needs."""
    return (
        to_json(component).replace("\\u002f", "/").replace("\\u003c", "<").replace("\\u003e", ">")
    )
