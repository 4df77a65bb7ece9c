"""Complete folders of each VoicePrivacy edition, as the challenges' own scripts leave them, with synthetic speech.

``python -m tests.challenge EDITION FOLDER`` writes one, ``write`` does it for tests. Names, counts and layouts are the
challenges'; ids are invented in the right form, or the real ones where a folder of the real lists is given. All of it depends
on ids alone: the same call writes the same bytes.
"""

from __future__ import annotations

from tests.challenge.editions import EDITIONS, Written, write

__all__ = ["EDITIONS", "Written", "write"]
