"""Sphinx configuration of the docs: MyST pages, Furo theme, copy buttons, no outside requests."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from botpool import __version__

project = "Botpool"
release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
exclude_patterns = ["site"]
myst_heading_anchors = 3
# Of a block with prompts, only the commands are copied: neither the prompts nor the output.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
html_theme = "furo"
html_title = "Botpool"
html_favicon = "../src/botpool/dashboard/static/favicon.svg"
html_logo = html_favicon
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b7468",
        "color-brand-content": "#0b7468",
        "font-stack": 'Inter, system-ui, -apple-system, "Segoe UI", sans-serif',
    },
    "dark_css_variables": {"color-brand-primary": "#2fc4b2", "color-brand-content": "#2fc4b2"},
}


def setup(app: Sphinx) -> None:
    # State diagrams stay text: a renderer for Mermaid would have to be loaded from another site.
    app.add_lexer("mermaid", TextLexer)
