"""``python -m tests.challenge EDITION FOLDER``: write a complete folder of an edition with synthetic speech."""

from __future__ import annotations

import argparse
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
    options = parser.parse_args()
    systems = None if options.systems is None else [name for name in options.systems.split(",") if name]
    written = write(options.edition, options.folder, options.lists, options.scale, systems, options.seconds)
    for name, part in sorted(written.sets.items()):
        speakers = {row.speaker for row in part.utterances}
        trials = "" if part.trials is None else f", {len(part.trials)} trials"
        print(f"{name}: {len(speakers)} speakers, {len(part.utterances)} utterances{trials}")
    print(*(f"note: {note}" for note in written.notes), written.root, sep="\n")


if __name__ == "__main__":
    main()
