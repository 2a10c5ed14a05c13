"""Texts from data, escaped for Markdown and LaTeX."""

from __future__ import annotations

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"},
    **{"±": r"$\pm$", "Δ": r"$\Delta$", "↓": r"$\downarrow$", "↑": r"$\uparrow$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}"},
}


def escape_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    Example:
        >>> escape_markdown("a_b | <c>")
        'a\\_b \\| &lt;c>'
    """
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{character}" if character in "\\|*_`[]" else character for character in text)


def escape_latex(text: str) -> str:
    r"""Text that LaTeX shows as it is, on one line.

    Example:
        >>> print(escape_latex("50 %_"))
        50 \%\_
    """
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
