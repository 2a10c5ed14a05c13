"""eSpeak NG through ctypes: text -> phonemes, text -> samples.

The package espeakng-loader provides the library. It keeps hidden state between utterances, and its noise comes from a
generator seeded with the clock. The same call therefore gives the same samples only if this module seeds the generator
and the process has not spoken before (`rendering.py` forks one per utterance).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
import numpy.typing as npt

# Names of eSpeak NG's speak_lib.h.
AUDIO_OUTPUT_SYNCHRONOUS = 2
INITIALIZE_DONT_EXIT = 0x8000
CHARS_UTF8 = 1
PHONEMES_IPA = 2
RATE, PITCH = 1, 3

# The library copies the path of its data into a buffer of 160 bytes, and appends to it.
MAX_PATH = 120

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class ESpeak:
    """The initialized library.

    Use it in a separate process: there is one voice per process, and a long path of the library's data changes the
    working directory.
    """

    def __init__(self) -> None:
        import espeakng_loader

        self._library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
        folder = espeakng_loader.get_data_path()
        if len(os.fsencode(folder)) > MAX_PATH:
            os.chdir(os.path.dirname(folder))
            folder = os.path.basename(folder)
        self.sample_rate: int = self._library.espeak_Initialize(
            AUDIO_OUTPUT_SYNCHRONOUS, 0, os.fsencode(folder), INITIALIZE_DONT_EXIT
        )
        if self.sample_rate <= 0:
            raise RuntimeError(f"Cannot start eSpeak NG with the data in {folder}. Reinstall espeakng-loader.")
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._chunks: list[npt.NDArray[np.int16]] = []
        self._callback = _Callback(self._receive)  # keeps a reference, because the library has only a pointer
        self._library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples: Any, num_samples: int, _events: Any) -> int:
        if samples and num_samples:
            self._chunks.append(np.ctypeslib.as_array(samples, (num_samples,)).copy())
        return 0

    def set_voice(self, name: str) -> None:
        """Sets the voice, such as "cs", or "cs+f2" with a variant."""
        if self._library.espeak_SetVoiceByName(name.encode()) != 0:
            raise ValueError(f"`voice` must be a voice of eSpeak NG; got {name!r}.")

    def read(self, text: str) -> str:
        """The phonemes of a text, in the International Phonetic Alphabet; "(en)" marks a change of language."""
        rest = ctypes.c_char_p(text.encode())
        clauses = []
        while rest.value:
            clause = self._library.espeak_TextToPhonemes(ctypes.byref(rest), CHARS_UTF8, PHONEMES_IPA)
            clauses.append((clause or b"").decode())
        return " ".join(clauses).strip()

    def say(self, text: str, rate: int, pitch: int) -> npt.NDArray[np.int16]:
        """The samples of a text, at `rate` words per minute. `pitch` is 0 to 100; 50 is the pitch of the voice."""
        self._library.espeak_SetParameter(RATE, rate, 0)
        self._library.espeak_SetParameter(PITCH, pitch, 0)
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(1))
        self._chunks.clear()
        encoded = text.encode()
        status = self._library.espeak_Synth(encoded, ctypes.c_size_t(len(encoded) + 1), 0, 1, 0, CHARS_UTF8, None, None)
        if status != 0 or not self._chunks:
            raise RuntimeError(f"eSpeak NG produced no sound (status {status})")
        return np.concatenate(self._chunks)
