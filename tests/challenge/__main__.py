"""``python -m tests.challenge EDITION FOLDER``: write a complete folder of an edition with synthetic speech."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.challenge import EDITIONS, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.challenge", description=__doc__)
    parser.add_argument("edition", choices=EDITIONS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lists", type=Path, help="folder of the real LibriSpeech lists; ids are invented without it")
    parser.add_argument("--scale", type=float, default=1.0, help="below 1: fewer speakers and utterances")
    parser.add_argument("--systems", help="suffixes of anonymised copies without underscore, such as mcadams,B3")
    parser.add_argument("--seconds", type=float, default=1.0, help="of an utterance, give or take 30 %%; 0: no audio")
    given = parser.parse_args()
    begun = time.monotonic()
    systems = None if given.systems is None else [name for name in given.systems.split(",") if name]
    written = write(given.edition, given.folder, given.lists, given.scale, systems, given.seconds)
    for name, held in sorted(written.sets.items()):
        trials = "" if held.trials is None else f", {len(held.trials)} trials"
        print(
            f"{name}: {len({row.speaker for row in held.utterances})} speakers, {len(held.utterances)} utterances{trials}"
        )
    for note in written.notes:
        print(f"note: {note}")
    print(f"{written.root} in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
