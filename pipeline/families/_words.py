"""Words that several families share."""

from __future__ import annotations

TRIALS = "Speaker verification and ZEBRA"
"""Title of the table of what one list of trials gives."""

NOE_2020 = (
    "P.-G. Noé et al., “Speech Pseudonymisation Assessment Using Voice Similarity Matrices”, Interspeech 2020 "
    "(DeID, G_VD)."
)
NOE_2022 = (
    "P.-G. Noé et al., “Towards a unified assessment framework of speech pseudonymisation”, Computer Speech & Language 72, "
    "2022 (all of the above in one framework)."
)
