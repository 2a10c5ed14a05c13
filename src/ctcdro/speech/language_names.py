"""English names of languages, for people: `kor` is shown as "Korean (kor)". Files keep the codes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ..runtime.extras import extra


def language_name(code: str, with_code: bool = True) -> str:
    """The English name of a language and its code; other text is returned unchanged.

    Args:
        code: an ISO 639 code of two or three letters, in lower case.
        with_code: whether to append the code, in parentheses.

    Example:
        >>> language_name("kor"), language_name("cs"), language_name("ces/fleurs")
        ('Korean (kor)', 'Czech (cs)', 'ces/fleurs')
    """
    name = _name(code)
    return code if name is None else f"{name} ({code})" if with_code else name


@cache
def _name(code: str) -> str | None:
    if not re.fullmatch("[a-z]{2,3}", code):
        return None
    with extra("data", "Showing names of languages"):
        from langcodes import Language

    return _registered_names().get(Language.get(code).language or "")


@cache
def _registered_names() -> dict[str, str]:
    """Names by shortest code, without remarks such as "(macrolanguage)", from IANA's registry, a part of langcodes."""
    from langcodes.util import data_filename

    # `langcodes.registry_parser` takes five times as long, which a short command would notice.
    registry = Path(data_filename("language-subtag-registry.txt")).read_text(encoding="utf-8")
    entries = re.findall(r"^Type: language\nSubtag: (.+)\nDescription: (.+(?:\n  .+)*)", registry, re.MULTILINE)
    return {code: re.sub(r" \(.*\)", "", name.replace("\n ", "")) for code, name in entries}
