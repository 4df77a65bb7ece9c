"""What each check is called, what its findings mean for the numbers, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Title, meaning and remedy of a check."""

    title: str
    means: str
    mend: str


WORDS = {
    "missing": Words(
        "missing files",
        "a run refuses the submission; with allow_partial=true it leaves the utterances out of every system, and numbers over fewer "
        "trials do not compare with others",
        "anonymise the utterances that are named and add their files",
    ),
    "extra": Words(
        "extra files",
        "nothing, for they are not used; but a file that was meant for an utterance is not used either",
        "take them away, or name them after their utterances",
    ),
    "unclear": Words(
        "ambiguous files",
        "a run refuses the submission: it would have to guess which file is meant",
        "keep one file for each utterance, in the folder itself",
    ),
    "unreadable": Words(
        "unreadable files",
        "a run refuses the submission, as for missing files",
        "write the files that are named once more",
    ),
    "silent": Words(
        "files without speech",
        "a run refuses the submission: silence has no speaker, and would count as perfect privacy",
        "look at what the anonymiser gave back for these utterances, and make them again",
    ),
    "duration": Words(
        "duration changed",
        "what was cut off is missing from privacy and utility alike; where the protocol asks for the length of the original, the "
        "submission breaks it",
        "pad or trim to the original's number of samples; files below half or above twice their length were cut off or run on",
    ),
    "header": Words(
        "wrong sampling rate in the header",
        "the speech plays too fast or too slow, and its voice is too high or too low: attackers miss it, which looks like privacy; a run "
        "refuses files with as many samples as their original at another rate",
        "write the files again with the rate that they were made at; if the lengths are meant, nothing",
    ),
    "rate": Words(
        "sampling rate changed",
        "files are resampled before features are taken; below 16 kHz they hold nothing above half their rate, where extractors listen too",
        "write files at the rate of the original",
    ),
    "bandwidth": Words(
        "narrow band",
        "extractors that were trained on 8 kHz of bandwidth hear a telephone, which looks like privacy",
        "give the system what it needs to write the whole band, or evaluate the originals cut to the same band beside it",
    ),
    "zeros": Words(
        "digital silence at the ends",
        "an extractor that does not trim exact zeros hears them: on VoicePrivacy 2024 that moves an EER by up to 2.8 points",
        "nothing, if trim_zeros=true is used as the challenge does; else write files without padding",
    ),
    "clipping": Words(
        "clipping",
        "clipped speech is used as it is: distortion hides voices and words, and files of floats above full scale depend on who reads them",
        "scale the waves down before they are written, and write 16-bit files",
    ),
    "alike": Words(
        "identical audio under two ids",
        "no number on such speech tells how private a system is: the same was given back for different speech",
        "look for a loader that mixes up names or an anonymiser that falls back on one file, and make the files again",
    ),
    "unprotected": Words(
        "files that are the original",
        "these utterances were not anonymised: privacy is that of the original for them, whatever their level, offset and format; a run "
        "refuses a system that leaves all of them so",
        "anonymise them; if the system passes what it cannot treat, say so beside the numbers",
    ),
    "others": Words(
        "original audio of another utterance",
        "names and recordings do not belong together, and nothing was anonymised",
        "look for a list that is shifted by a line, and make the files again",
    ),
    "second_run": Words(
        "second run that repeats the first",
        "what compares two runs compares recordings with themselves",
        "anonymise once more with other random numbers, unless the system draws none",
    ),
    "treatment": Words(
        "enrolment and trials treated differently",
        "the EER compares two kinds of speech rather than speakers, and comes out near chance whatever the protection (system T10-2 of "
        "the Attacker Challenge)",
        "anonymise enrolment and trial sets with the same system and the same settings",
    ),
    "data": Words(
        "the data set itself",
        "a run refuses the data set before any compute",
        "mend the data set as said with each fault",
    ),
    "labels": Words(
        "trials whose label contradicts the speakers",
        "targets counted as non-targets and the reverse: EER and Cllr are wrong for every system",
        "correct the labels, or leave the third column out everywhere: labels then follow from the speakers",
    ),
    "duplicates": Words(
        "duplicate trials",
        "some trials weigh twice: numbers do not compare with those of the published list",
        "keep one line of each pair",
    ),
    "contradictions": Words(
        "contradicting trials",
        "one pair is target and non-target at once: no score can be right",
        "keep the line whose label agrees with utt2spk",
    ),
    "cross_sex": Words(
        "missing cross-sex trials",
        "without pairs across sexes the attacker is denied the easy non-targets that the protocol has: the EER comes out higher than it is "
        "defined to be, and two lists under one name do not compare",
        "add the pairs of a model and an utterance of the other sex, or name the set as the lists of one sex are named",
    ),
}
