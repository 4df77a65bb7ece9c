"""A program of a user: it reads wav files of 16 bits with the standard library alone, and writes them with every other
sample upside down, which turns their spectra round, some quieter.

program.py [--fail] [--skip] INPUT OUTPUT [SEED] | program.py --list FILE
"""

from __future__ import annotations

import array
import sys
import wave


def turned(source: str, target: str, seed: int) -> None:
    with wave.open(source, "rb") as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        rate, samples = file.getframerate(), array.array("h", file.readframes(file.getnframes()))
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        made = [(one if n % 2 else -max(one, -32767)) // (1 + seed % 7) for n, one in enumerate(samples)]
        file.writeframes(array.array("h", made).tobytes())


words = sys.argv[1:]
if words[0] == "--fail":
    sys.exit("no model in ./weights")
if words[0] == "--list":
    with open(words[1], encoding="utf-8") as table:  # noqa: PTH123 (as people write programs)
        for line in table:
            source, target, _, seed = line.rstrip("\n").split("\t")
            turned(source, target, int(seed))
elif words[0] != "--skip":
    turned(words[0], words[1], int(words[2]) if len(words) > 2 else 0)
