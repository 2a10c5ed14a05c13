"""Language codes of corpora -> ISO 639-3 codes, which the paper and ML-SUPERB use."""

from __future__ import annotations

from ..runtime.extras import extra

# Written Chinese does not say which language is spoken; the region does.
_SPOKEN = {"zh": "cmn", "zh-cn": "cmn", "zh-tw": "cmn", "zh-hk": "yue", "nan-tw": "nan", "no": "nob"}


def language_code(tag: str) -> str:
    """The ISO 639-3 code of a language tag with hyphens or underscores.

    Example:
        >>> [language_code(tag) for tag in ["cs", "zh-CN", "zh-HK", "cmn_hans_cn", "nn-NO", "sw_ke", "ces", "hsb"]]
        ['ces', 'cmn', 'yue', 'cmn', 'nno', 'swa', 'ces', 'hsb']
    """
    with extra("data", "Mapping language codes"):
        import langcodes

    tag = tag.replace("_", "-").lower()
    if tag in _SPOKEN:
        return _SPOKEN[tag]
    code = tag.split("-")[0]
    try:
        return _SPOKEN.get(code) or langcodes.Language.get(code).to_alpha3()
    except (LookupError, ValueError) as error:
        raise ValueError(f"{tag!r} must begin with an ISO 639 language code, such as cs, ces or zh-CN.") from error
