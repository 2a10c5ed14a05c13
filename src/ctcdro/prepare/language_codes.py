"""Converts the language codes of corpora to ISO 639-3, which the paper and ML-SUPERB use."""

from __future__ import annotations

from ..runtime.extras import extra

# The code of written Chinese does not identify the spoken language, but the region does.
_SPOKEN = {"zh": "cmn", "zh-cn": "cmn", "zh-tw": "cmn", "zh-hk": "yue", "nan-tw": "nan", "no": "nob"}


def language_code(tag: str) -> str:
    """The ISO 639-3 code of a language tag such as zh-CN or cmn_hans_cn."""
    with extra("data", "Mapping language codes"):
        import langcodes

    tag = tag.replace("_", "-").lower()
    code = tag.split("-")[0]
    try:
        return _SPOKEN.get(tag) or _SPOKEN.get(code) or langcodes.Language.get(code).to_alpha3()
    except (LookupError, ValueError) as error:
        raise ValueError(f"{tag!r} must begin with an ISO 639 language code, such as cs, ces or zh-CN.") from error
