"""All faults of a data set, gathered and raised at once, with the likely cause and the edit that mends each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import DataError, Fault

UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that are printed as nothing, beside what Unicode calls controls, formats and blanks."""

# kind: (likely cause, what mends it)
TABLES = {
    "not-a-file": ("a pipe, a device or a socket in the place of a table", "put a plain file there"),
    "too-large": ("another file than the table, or one with holes", "correct the path, or cut the table down"),
    "encoding": ("a table saved in another encoding", "convert it to UTF-8 with the command given with it"),
}
"""What can be wrong with any text table as a whole."""

AGAIN = "copy the files again, or convert them with the command given with each file (it keeps the old one as FILE.bak)"
"""What mends audio that cannot be read; it goes on with what else does."""
_PARTIAL = "allow_partial=true goes on without them and marks the results"
_REPORTED = "dataset.protocol=reported evaluates what is there and says so above the results"
_LINKS = "set dataset.follow_links=true if the links are yours: regular files alone are read"

KINDS = {
    "root": ("a misspelt or unmounted folder", "set dataset.root=DIR to the folder of the data"),
    "no-sets": (
        "dataset.root lies one level too high or too low, or belongs to another kind of data set",
        "set dataset.root to the folder that holds the sets (X_enrolls with its X_trials_*, each with a wav.scp), or choose "
        "dataset=librispeech for a tree SPEAKER/CHAPTER/UTTERANCE.ext, dataset=folders for a tree SPEAKER/**/FILE.ext",
    ),
    "score-files": (
        "another layout than the challenges' scripts make, or a root that is not above the score files",
        "set dataset.root to the folder above them, or list them in a table scores.csv in dataset.root (file,subset,system,attacker: "
        "recipes/bring_your_scores/README.md), which is then all that is read",
    ),
    "score-table": ("a slip in scores.csv", "correct the line (recipes/bring_your_scores/README.md has the columns)"),
    "leaves-table": (
        "an absolute path, a path with '..', or a link that points elsewhere",
        f"copy the file below the folder of the table, or move the table into a folder above all files; {_LINKS}",
    ),
    "results": (
        "results of several evaluations under names without a date",
        "set dataset.results=NAME to the name of the folder results-… to read",
    ),
    "unused": (
        "a slip in a pattern or a name, or one of another folder",
        "correct it, or leave it out: patterns of dataset.distances=[…] are paths from dataset.root on",
    ),
    "missing-scores": (
        "an incomplete copy, or a misspelt path",
        "restore the file, or take its line out of scores.csv",
    ),
    "scores-twice": (
        "results of two evaluations in one folder",
        "keep one, or list in scores.csv which file is of which system",
    ),
    "no-trials": (
        "score files that were copied without the challenge's lists of trials",
        "set dataset.trials=DIR to the folder that holds SET/trials (data/ of the challenge), or, if all ids are SPEAKER or "
        "SPEAKER-…, dataset.labels=ids",
    ),
    "unknown-set": ("a misspelt name", "correct dataset.sets=[…], or leave it out to take every set"),
    "originals": (
        "the Attacker Challenge hands out anonymised speech alone",
        "set dataset.originals=DIR to a checkout of VoicePrivacy 2024, its data/, or any folder with its original sets",
    ),
    "another-set": (
        "a set that was copied or renamed into the place of another, such as one of dev for one of test",
        "restore the set from where the data come from, or choose others by dataset.sets=[…]; no list needs a change",
    ),
    "edition": (
        "sets of several editions in one folder, or another edition than was asked for",
        f"set dataset.edition to that of the data, or dataset.sets=[…] to the sets that are meant, as the line says; {_REPORTED}",
    ),
    "protocol": (
        "a copy that was cut down or never completed, or a preparation of the data that was interrupted",
        f"restore the sets, or choose those that are whole by dataset.sets=[…]; {_REPORTED}",
    ),
    "unread-list": (
        "a list under a name or in a form that is not read here, or one that came with other data",
        "for Kaldi sets write lines MODEL UTTERANCE target|nontarget into SET_trials/trials, and the utterances that are enrolled into "
        "SET_enrolls/enrolls; for trees give the folder that the list is of; or take the list out of the folder, and halves are made",
    ),
    "names": (
        "sets of enrolment and of trials under names that do not say which belong together",
        "rename them so that they are X_enrolls with X_trials or X_trials_…; sets that have nothing to do with each other need other "
        "names, for then each is halved by itself",
    ),
    "layout": (
        "another layout than SPEAKER/CHAPTER/UTTERANCE.ext",
        "choose dataset=folders, which reads any tree with a folder a speaker (SPEAKER/**/FILE.ext), or move the files",
    ),
    "level": (
        "a root one level too high",
        "give the folder whose own folders are the speakers, as the line says; to take several such folders together, put all "
        "folders of speakers into one; if the folders are speakers after all, give them other names",
    ),
    "no-speaker-folder": (
        "a tree without a folder a speaker",
        "move the files to SPEAKER/**/FILE.ext, or write a Kaldi set for them (dataset=kaldi)",
    ),
    "missing-table": ("an incomplete copy of the set", "restore the table"),
    **TABLES,
    "bad-id": (
        "an id copied from a terminal, a web page or a spreadsheet",
        "take the characters, which the lines name by their codes, out of all tables and names of files; give ids that look alike "
        "other names",
    ),
    "malformed": ("a damaged or hand-edited table", "correct the line"),
    "pipe": (
        "a wav.scp made by a Kaldi recipe; a run starts no commands that stand in data, and reads the file of one that only decodes it",
        "write each recording as a plain file (Kaldi's wav-copy, or what the recipe's own command gives), and list those in wav.scp",
    ),
    "archive": (
        "an archive that was written anew after its wav.scp, a damaged copy, or features in the place of recordings",
        "copy the archive and its wav.scp again, together; or write plain files and list those in wav.scp",
    ),
    "segments": (
        "a table that was damaged, or made for other recordings",
        "correct the line (UTTERANCE RECORDING START END, in seconds; END is -1 for the end of the recording), or take the utterance "
        "out of all tables",
    ),
    "leaves-root": (
        "a path with '..' or a link that points elsewhere",
        f"{_LINKS}; or set dataset.audio_root=DIR to a folder that holds all the audio, or write absolute paths into wav.scp",
    ),
    "link": ("links to where the audio lies, as recipes make them", _LINKS),
    "missing-audio": (
        "a moved or incomplete copy, or relative paths that start from another folder",
        "restore the files, or correct the paths in wav.scp, or set dataset.audio_root=DIR to where relative paths start, or take the utterances out of the "
        f"tables; {_PARTIAL}",
    ),
    "bad-audio": (
        "an interrupted copy or conversion, or a kind of file that is not read here",
        f"{AGAIN}, or take the utterances out of the tables; {_PARTIAL}",
    ),
    "too-long": (
        "a recording that was never cut into utterances, or a damaged header",
        "set dataset.longest_hours as the line of the file says (an hour at 16 kHz takes 230 MB of memory), or cut the recordings",
    ),
    "cancelling": (
        "a stereo recording with one channel inverted: a swapped wire, or a conversion that subtracted",
        f"keep one channel with the command given with each file, or take the utterances out of the tables; {_PARTIAL}",
    ),
    "no-speech": (
        "a slip in the lists, a failed recording, or an anonymiser that gave nothing back",
        f"replace the files, or take the utterances out of the tables; {_PARTIAL}",
    ),
    "train": (
        "a misspelt folder, or one that holds no training set, or several",
        "set dataset.train=DIR to one Kaldi set or one tree with a folder a speaker, in a folder with a name of its own",
    ),
    "readers": (
        "a recipe that takes each chapter of a reader for a speaker, as Kaldi's for LibriSpeech and ESPnet's for LibriTTS do",
        "let utt2spk and spk2gender name the reader (what ids begin with), and lists of trials compare readers; for the training set of "
        "VoicePrivacy 2022 give dataset.train=train-clean-360-asv; if they are different people after all, put a letter before their ids",
    ),
    "train-speaker": (
        "dataset.train names a set that is evaluated, or sets that were not split by speaker or number their speakers alike",
        "set dataset.train=DIR to speech of other speakers (for LibriSpeech test sets: train-clean-100), or take these speakers out "
        "of one of the two; if they are other people, give them other ids (utt2spk, or the folders of a tree)",
    ),
    "no-audio-line": ("tables cut down to different utterances", "add the utterances to wav.scp or take them out"),
    "no-speaker": (
        "tables cut down to different utterances",
        "add the utterances to utt2spk or take them out of wav.scp",
    ),
    "no-attribute": (
        "a table of other speakers or utterances, or a misspelt name in dataset.attributes",
        "give every speaker a line SPEAKER VALUE in spk2NAME, or every utterance a line UTTERANCE VALUE in utt2NAME; "
        "'dataset.attributes=[]' goes on without",
    ),
    "no-sex": (
        "an incomplete table of speakers",
        "add a line for each speaker (spk2gender: SPEAKER f|m; SPEAKERS.TXT: ID | F|M | …), or remove the table; for trees, "
        "dataset.sexes=FILE names another table",
    ),
    "duplicate-id": (
        "tables joined twice, or file names that differ only by folder, extension or blanks",
        "keep one of them; rename files so that each name is unique",
    ),
    "duplicate-audio": ("one recording under two names", "keep one of the utterances"),
    "disagrees": (
        "sets from different sources put together",
        "make the sets agree, or evaluate them separately with dataset.sets=[…]",
    ),
    "columns": (
        "a list written for another tool",
        "rewrite it: lines are MODEL UTTERANCE [target|nontarget]",
    ),
    "labels": (
        "labels written with the other meaning, or scores' order taken for labels",
        "exchange the labels, or leave the third column out everywhere: labels then follow from the speakers",
    ),
    "unknown-model": (
        "enrolment and trial lists of different data sets",
        "add the models' utterances to the enrolment set or take the trials out",
    ),
    "unknown-utterance": (
        "lists made for a larger copy of the data",
        "add the utterances to the set or take the lines out",
    ),
    "duplicate-trial": (
        "lists joined twice",
        "keep one line of each pair; of two that contradict each other the one that is right",
    ),
    "label": (
        "a mistake in the list or in utt2spk, or models that are no speakers (several models of one): here a model is a speaker, and a "
        "trial is a target if and only if model and speaker are the same",
        "correct the label or the speaker, whichever is wrong; or leave the third column out everywhere: labels then follow from the speakers",
    ),
    "no-class": (
        "a list cut down too far, or a set of a single speaker",
        "add trials of the class, or leave the set out with dataset.sets=[…]",
    ),
    "unknown-sex": (
        "speakers of known and of unknown sex in one set",
        "give the sex of all speakers, or a list of trials",
    ),
    "empty": ("an incomplete copy", "restore the files, or leave the set out with dataset.sets=[…]"),
    "ambiguous": (
        "results of several systems or formats in one folder",
        "keep one, or name the system's folder suffix",
    ),
}


def escape_unprintable(text: str) -> str:
    """A text as it may be printed: what a terminal would obey or not show, in its escape form (``\\x1b``, ``\\u2028``)."""
    if text.isprintable() and not UNSEEN.search(text):
        return text
    return "".join(
        character.encode("unicode_escape", "surrogatepass").decode("ascii")
        if not character.isprintable() or UNSEEN.match(character)
        else character
        for character in text
    )


class Faults:
    """Faults of a data set or of what comes beside it, in the order in which they were found.

    Args:
        kinds: likely cause and remedy of each kind, those first from which others follow: in this order they are reported.
        about: what has the faults, for the message: a noun with its verb.
    """

    def __init__(self, kinds: Mapping[str, tuple[str, str]] = KINDS, about: str = "the data set has") -> None:
        self.kinds, self.about = dict(kinds), about
        self.found: list[Fault] = []

    def add(self, kind: str, what: str, where: str | Path = "") -> None:
        if kind not in self.kinds:
            raise KeyError(kind)
        self.found.append(Fault(escape_unprintable(what), escape_unprintable(str(where)), kind))

    def has(self, kind: str) -> bool:
        return any(fault.kind == kind for fault in self.found)

    def stop(self, where: str | Path, what: str = "") -> None:
        """Raise what was found, if anything.

        Args:
            where: what the faults are in.
            what: the message, if it is to say more than the number of faults.

        Raises:
            DataError: with all the faults, the likely cause and the remedy of each kind.
        """
        if not self.found:
            return
        order = list(self.kinds)
        ordered = sorted(self.found, key=lambda fault: order.index(fault.kind))
        kinds = list(dict.fromkeys(fault.kind for fault in ordered))
        head = {kind: f"[{kind}] " if len(kinds) > 1 else "" for kind in kinds}
        count = len(self.found)
        raise DataError(
            what or f"{self.about} {count} fault{'s' if count > 1 else ''}",
            where=escape_unprintable(str(where)),
            cause="; ".join(head[kind] + self.kinds[kind][0] for kind in kinds),
            remedy="; ".join(head[kind] + self.kinds[kind][1] for kind in kinds),
            faults=[Fault(head[fault.kind] + fault.what, fault.where, fault.kind) for fault in ordered],
        )
