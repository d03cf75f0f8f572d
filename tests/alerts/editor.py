"""A text as an editor reads it: by YAML 1.2, in which a date is a text."""

import yaml
from jsonschema import Draft202012Validator

from alerts.schema import schema

_VALIDATOR = Draft202012Validator(schema())


class _Loader(yaml.SafeLoader):
    """Resolves no dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def marks(text):
    """What an editor underlines."""
    return [error.message for error in _VALIDATOR.iter_errors(yaml.load(text, Loader=_Loader))]  # noqa: S506 - a safe one
