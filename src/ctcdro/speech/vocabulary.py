"""`Vocabulary`: text -> labels, and greedy CTC output -> language and text.

An utterance is labeled as in the paper: one token for its language, such as `[ces]`, then its characters, in one CTC
sequence. An utterance in several languages has one token for each, in order of appearance. Label 0 is the blank; the
others are sorted, so the same texts always give the same vocabulary.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from ..runtime.extras import extra
from ..storage.atomic import atomic_write
from ..storage.json_files import read_json
from ..storage.paths import PathLike

# Names of `transformers.Wav2Vec2CTCTokenizer`.
SPECIAL_TOKENS = BLANK, UNKNOWN, WORD_SPACE = ("<pad>", "<unk>", "|")

# Shown in a text in place of unknown characters.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def can_be_language(code: str) -> bool:
    return re.fullmatch(r"[^\s\[\]]+", code) is not None


def can_be_character(character: str) -> bool:
    """Whether a character can be a label; the space between words is one."""
    return character == " " or (len(character) == 1 and not character.isspace() and character != WORD_SPACE)


def frames_needed(labels: Sequence[int]) -> int:
    """The minimum number of frames for CTC: one per label, and one for the blank between two equal labels."""
    return len(labels) + sum(label == following for label, following in pairwise(labels))


class Vocabulary:
    """The labels of a recognizer: blank, unknown, word space, a token per language, and characters.

    Args:
        languages: language codes, such as "ces".
        characters: the characters of all texts.
        characters_by_language: the characters of each language, such as {"ces": "abc"}; None if unknown.

    Example:
        >>> vocabulary = Vocabulary.of(texts=["ahoj", "dobrý den"], languages=["ces", "ces"])
        >>> vocabulary.encode("den", "ces")
        [3, 6, 7, 10]
        >>> vocabulary.decode_frames([0, 3, 3, 0, 6, 6, 7, 0, 10, 0])
        ('ces', 'den')
    """

    def __init__(
        self,
        languages: Iterable[str],
        characters: Iterable[str],
        characters_by_language: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self.languages = sorted(set(languages))
        self.characters = sorted(set(characters) - {" "})
        for language in self.languages:
            if not can_be_language(language):
                raise ValueError(f"`languages` must be codes without spaces or brackets; got {language!r:.60}.")
        for character in self.characters:
            if not can_be_character(character):
                raise ValueError(
                    f"`characters` must be single characters other than {WORD_SPACE!r} and whitespace (except the "
                    f"space); got {character!r:.60}. Normalize the texts first."
                )
        self.tokens = [*SPECIAL_TOKENS, *(f"[{language}]" for language in self.languages), *self.characters]
        self._label_of = {token: label for label, token in enumerate(self.tokens)}
        shown = {
            BLANK: "",
            UNKNOWN: REPLACEMENT,
            WORD_SPACE: " ",
            **{f"[{language}]": "" for language in self.languages},
        }
        self._shown = [shown.get(token, token) for token in self.tokens]
        self.characters_by_language = self._check_characters(characters_by_language)
        """Sorted characters of each language without the space, as one text per language."""

    @classmethod
    def of(cls, texts: Iterable[str], languages: Iterable[str | Iterable[str]]) -> Vocabulary:
        """The vocabulary of training data: texts, and the language or languages of each."""
        found: dict[str, set[str]] = {}
        for text, spoken in zip(texts, languages, strict=True):
            for language in [spoken] if isinstance(spoken, str) else spoken:
                found.setdefault(language, set()).update(text)
        return cls(found, set().union(*found.values()), found)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self.languages)} languages and {len(self.characters)} characters>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __or__(self, other: Vocabulary) -> Vocabulary:
        """The labels of both. The characters of each language are known if both vocabularies have them."""
        mine, theirs = self.characters_by_language, other.characters_by_language
        languages = [*self.languages, *other.languages]
        by_language = None
        if mine is not None and theirs is not None:
            by_language = {language: mine.get(language, "") + theirs.get(language, "") for language in languages}
        return Vocabulary(languages, [*self.characters, *other.characters], by_language)

    def encode(self, text: str, language: str | Iterable[str]) -> list[int]:
        """The labels of an utterance: its language or languages, then its characters.

        All unknown characters share one label.
        """
        languages = [language] if isinstance(language, str) else list(language)
        if unknown_languages := [name for name in languages if name not in self.languages]:
            raise ValueError(f"`language` must be one of {', '.join(self.languages)}; got {unknown_languages[0]!r}.")
        unknown = self._label_of[UNKNOWN]
        characters = (WORD_SPACE if character == " " else character for character in text)
        tokens = [self._label_of[f"[{name}]"] for name in languages]
        return tokens + [self._label_of.get(character, unknown) for character in characters]

    def decode(self, labels: Iterable[int]) -> tuple[str | None, str]:
        """The language and text of labels; the language is that of the first language token, or None."""
        labels, tokens = list(labels), self.language_labels
        first = next((label for label in labels if label in tokens), None)
        language = None if first is None else self.languages[first - tokens.start]
        return language, " ".join("".join(map(self._shown.__getitem__, labels)).split())

    def decode_frames(self, labels: Iterable[int]) -> tuple[str | None, str]:
        """The language and text of the best label of each frame: repeats are merged, then blanks removed."""
        return self.decode(label for label, _ in groupby(labels))

    @property
    def language_labels(self) -> range:
        """Labels of the language tokens, in the order of `languages`."""
        return range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + len(self.languages))

    def labels_of(self, language: str) -> list[int]:
        """Labels that can occur in a language: its token, its characters, and the special labels.

        If the characters of each language are unknown, all characters are included.
        """
        if language not in self.languages:
            raise ValueError(f"`language` must be one of {', '.join(self.languages)}; got {language!r}.")
        known = self.characters_by_language
        characters = self.characters if known is None else known[language]
        return [self._label_of[token] for token in (*SPECIAL_TOKENS, f"[{language}]", *characters)]

    def show(self, label: int) -> str:
        """The character that a label stands for, as it appears in a text; empty for the blank and language tokens."""
        return self._shown[label]

    def _check_characters(self, by_language: Any) -> dict[str, str] | None:
        if by_language is None:
            return None
        if not isinstance(by_language, Mapping) or set(by_language) != set(self.languages):
            raise ValueError("`characters_by_language` must have the languages of the vocabulary as its keys.")
        known = set(self.characters)
        checked = {}
        for language in self.languages:
            characters = set(by_language[language]) - {" "}
            if unknown := characters - known:
                raise ValueError(f"`characters_by_language` has characters not in `characters`: {unknown!r:.60}.")
            checked[language] = "".join(sorted(characters))
        return checked

    def save(self, path: PathLike) -> None:
        """Writes a JSON object of tokens and labels, in the format of `vocab.json` of `transformers`."""
        _write_labels(self._label_of, path)

    def save_tokenizer(self, folder: PathLike) -> None:
        """Writes a `transformers.Wav2Vec2CTCTokenizer` with the same labels for normalized texts.

        Its texts begin with the language: `tokenizer("[ces]dobrý den")`.
        """
        save_ctc_tokenizer(self._label_of, folder)

    @classmethod
    def load(cls, path: PathLike) -> Vocabulary:
        """Reads a vocabulary written by `save`. A ValueError names the file if it is not one."""
        try:
            return cls._from_labels(read_json(path))
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: not a vocabulary written by ctcdro: {error}") from error

    @classmethod
    def _from_labels(cls, label_of: Any) -> Vocabulary:
        if not isinstance(label_of, dict) or not all(type(label) is int for label in label_of.values()):
            raise ValueError("expected an object of tokens and their labels")
        tokens = sorted(label_of, key=label_of.__getitem__)
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(f"expected {', '.join(SPECIAL_TOKENS)} as the first labels")
        rest = tokens[len(SPECIAL_TOKENS) :]
        languages = [token[1:-1] for token in rest if len(token) > 2 and token[0] == "[" and token[-1] == "]"]
        vocabulary = cls(languages, (token for token in rest if len(token) == 1))
        if vocabulary._label_of != label_of:
            raise ValueError("expected the labels of languages and characters in sorted order")
        return vocabulary


def save_ctc_tokenizer(label_of: Mapping[str, int], folder: PathLike) -> None:
    """Writes a `transformers.Wav2Vec2CTCTokenizer` with these labels, among them the special tokens."""
    with extra("huggingface", "A tokenizer"):
        from transformers import Wav2Vec2CTCTokenizer
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _write_labels(label_of, folder / "vocab.json")
    tokenizer = Wav2Vec2CTCTokenizer(
        folder / "vocab.json",
        bos_token=None,  # otherwise it would add tokens
        eos_token=None,
        unk_token=UNKNOWN,
        pad_token=BLANK,
        word_delimiter_token=WORD_SPACE,
    )
    tokenizer.save_pretrained(folder)


def _write_labels(label_of: Mapping[str, int], path: PathLike) -> None:
    with atomic_write(path) as file:
        json.dump(label_of, file, ensure_ascii=False, indent=0)
