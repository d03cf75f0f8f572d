"""How the documentation becomes a site: `make docs`. The pages stay plain Markdown for git hosts."""

import re
from typing import Any

project = "Stagewatch"
html_title = "Stagewatch"
extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_show_sphinx = False
html_theme_options = {
    "navigation_with_keys": False,
    "light_css_variables": {"color-brand-primary": "#0D4F7A", "color-brand-content": "#0D4F7A"},
    "dark_css_variables": {"color-brand-primary": "#52ACF6", "color-brand-content": "#52ACF6"},
}
pygments_dark_style = "monokai"

_PART = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.MULTILINE)
_PAGE = re.compile(r"\]\(([a-z0-9/_-]+|decisions/README)\.md\)")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([A-Za-z][^)#]*)(?:#[^)]*)?\)")
_DECISIONS = "decisions/README"


def setup(app: Any) -> None:
    """Navigation is what `index.md` lists; what lies outside of `docs/` is named, not linked."""
    app.connect("source-read", _read)


def _read(_app: object, name: str, source: list[str]) -> None:
    text = source[0]
    if name == "index":
        text += "".join(_tree(title, pages) for title, pages in _PART.findall(text))
    elif name == _DECISIONS:
        text += "\n```{toctree}\n:glob:\n:maxdepth: 1\n0*\n```\n"
    source[0] = _OUTSIDE.sub(_named, text) if "/" not in name or "](../../" in text else text


def _named(link: re.Match[str]) -> str:
    """A page beside this one stays a link."""
    text, path = link.groups()
    return f"{text} (`{path}` in the repository)"


def _tree(title: str, listed: str) -> str:
    pages = "\n".join(dict.fromkeys(_PAGE.findall(listed)))
    return f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n{pages}\n```\n"
