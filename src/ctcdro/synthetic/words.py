"""Words of a language from installed packages, and sentences of random words with a given duration.

Guarantees:

* a word is in NFC and lower case, has only letters and marks of its script, and is unchanged by `clean`;
* words are sorted by frequency if wordfreq has the language; otherwise they come from CLDR and a sample text, in a
  fixed order;
* the same generator gives the same sentence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from ..speech.normalization import clean
from .voices import LANGUAGES, Language

# Prefixes of the Unicode names of letters, for scripts whose name is not the prefix.
LETTER_NAMES = {
    "Arabic": ("ARABIC LETTER",),  # without tatweel, which is not spoken
    "Han": ("CJK UNIFIED",),
    "Hangul": ("HANGUL SYLLABLE",),
    "Kana": ("HIRAGANA LETTER", "KATAKANA LETTER", "KATAKANA-HIRAGANA PROLONGED"),
}
SYLLABIC = {"Han", "Hangul"}  # one character can be a word; in other scripts it is read as the name of a letter

# Words without any of these are abbreviations, which are spelled out.
VOWEL_LETTERS = {
    "Cyrillic": "аеёиоуыэюяіїєъ",
    "Greek": "αεηιουω",
    "Latin": "aeiouyæøœı",
}
NOT_FIRST_IN_KANA = "んンっッーぁぃぅぇぉゃゅょァィゥェォャュョ"

# In eSpeak NG's International Phonetic Alphabet, including the mark of syllabic consonants.
VOWEL_SOUNDS = "aeiouyæøœɐɑɒɔɘəɚɛɜɞɤɨɪɯɵɶʉʊʌʏεᵻ\u0329"
NO_SOUNDS = "ˈˌː"

# Sample texts in gflanguages, by voice. Together with the names in CLDR, they provide the words of languages without
# wordfreq.
SAMPLES = {"ka": "ka_Geor", "sw": "sw_Latn", "yue": "yue_Hant"}

NUM_LISTED = 10_000  # words from wordfreq, before filtering
MAX_PHRASE = 4  # characters
PSEUDO_TERRITORIES = {"XA", "XB", "ZZ"}  # accents, writing direction, unknown
NUM_LAST = 16  # candidates for the last word of a sentence


@cache
def frequent_words(code: str) -> tuple[str, ...]:
    """Words of a language, sorted by frequency if it is known."""
    language = LANGUAGES[code]
    return tuple(dict.fromkeys(word for word in _listed(language) if is_word(word, language)))


def _listed(language: Language) -> Iterator[str]:
    if language.wordfreq == "-":
        texts = [*_sample_texts(SAMPLES[language.voice]), *_cldr_names(language.voice)]
        yield from (word for text in texts for word in _split(text, language))
        return
    import wordfreq

    for word in wordfreq.top_n_list(language.wordfreq, NUM_LISTED):
        # wordfreq folds case, which replaces final sigma with sigma and sharp s with ss.
        spelled = re.sub("σ$", "ς", word) if language.script == "Greek" else word
        if clean(spelled) == spelled and not (language.voice == "de" and "ss" in spelled):
            yield spelled


def _split(text: str, language: Language) -> list[str]:
    """The words of a text; in languages without spaces, the short phrases between punctuation and digits."""
    if not language.spaced:
        return [phrase for phrase in re.split(r"[\W\d_]+", text) if len(phrase) <= MAX_PHRASE]
    words = (word.strip(",.;:") for word in re.split(r"[\s\-‑–/()]+", text))
    return [clean(word) for word in words if word.replace("’", "'").find("'") < 0]


def _cldr_names(locale: str) -> Iterator[str]:
    """Names of times, places and languages. Months are in the form used in dates: others may be inherited."""
    from babel import Locale

    names = Locale.parse(locale)
    for calendar in (names.months, names.days):
        yield from calendar["format"]["wide"].values()
    yield from (name for code, name in names.territories.items() if code not in PSEUDO_TERRITORIES)
    for table in (names.languages, names.scripts, names.currencies):
        yield from table.values()
    yield from (zone["city"] for zone in names.time_zones.values() if "city" in zone)


def _sample_texts(sample: str) -> Iterator[str]:
    import gflanguages

    texts = gflanguages.LoadLanguages()[sample].sample_text
    yield from (getattr(texts, field.name) for field in texts.DESCRIPTOR.fields if field.name.startswith("specimen"))


def is_word(word: str, language: Language) -> bool:
    """Whether a text is one word in the script of the language, and not an abbreviation."""
    if len(word) < (1 if language.script in SYLLABIC else 2) or not unicodedata.category(word[0]).startswith("L"):
        return False
    if not all(_is_of_script(character, language.script) for character in word):
        return False
    if language.script == "Kana":
        return word[0] not in NOT_FIRST_IN_KANA
    vowels = VOWEL_LETTERS.get(language.script)
    return vowels is None or any(letter in vowels for letter in unicodedata.normalize("NFD", word))


def _is_of_script(character: str, script: str) -> bool:
    kind, name = unicodedata.category(character), unicodedata.name(character, "")
    prefixes = LETTER_NAMES.get(script, (script.upper(),))
    # Marks without a script in their name, such as those of Romanized Arabic, are excluded.
    return kind[0] in "LM" and (name.startswith(prefixes) or (script == "Arabic" and name in _ARABIC_MARKS))


_ARABIC_MARKS = {"ARABIC FATHA", "ARABIC DAMMA", "ARABIC KASRA", "ARABIC SHADDA", "ARABIC SUKUN", "ARABIC FATHATAN"}


def is_read_well(reading: str, language: Language) -> bool:
    """Whether phonemes from `ESpeak.read` show that a word was read in its language, and not spelled out.

    A change of language is in parentheses, and names of letters are separated by spaces. Arabic words with unknown
    short vowels have sequences of consonants.
    """
    if "(" in reading or (" " in reading and language.script != "Han"):
        return False
    sounds = "".join(sound for sound in unicodedata.normalize("NFD", reading) if sound not in NO_SOUNDS)
    if language.script == "Arabic" and re.search(f"[^{VOWEL_SOUNDS}]{{4}}", sounds.replace("ˤ", "")):
        return False
    return any(sound in VOWEL_SOUNDS for sound in sounds)


def num_sounds(reading: str) -> int:
    """The number of phonemes of a word, such as 6 for "dˈobriː"."""
    return sum(sound.isalpha() and sound not in "ˈˌ" for sound in reading)


def join(words: Sequence[str], language: Language) -> str:
    return (" " if language.spaced else "").join(words)


def compose(seconds: npt.NDArray[np.float64], target: float, rng: np.random.Generator) -> list[int]:
    """Draws words, of (n,) `seconds` each, whose total duration is close to `target`; returns their numbers."""
    chosen: list[int] = []
    shortest = seconds.min()
    while target - seconds[word := int(rng.integers(len(seconds)))] >= shortest:
        chosen.append(word)
        target -= seconds[word]
    candidates = rng.integers(len(seconds), size=NUM_LAST)
    last = int(candidates[np.argmin(np.abs(seconds[candidates] - target))])
    if not chosen or abs(target - seconds[last]) < abs(target):
        chosen.append(last)
    return chosen
