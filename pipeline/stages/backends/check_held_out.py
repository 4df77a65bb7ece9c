"""The EER of a back end on training speakers that it has not learnt from: what an attack is chosen by."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.contracts import Backend, ComponentSettings, Vectors
from pipeline.engine.task import Work
from pipeline.errors import DataError
from pipeline.metrics.detection import eer
from pipeline.metrics.information import cllr_min
from pipeline.protocol.held_out import HeldOutPairs, hold_out_speakers, pair_held_out
from pipeline.stages.backends import compute
from pipeline.tables import records

VERSION = "held-out check 2"
PAIRS = "held_out.parquet"


def check_held_out(backend: type[Backend], settings: ComponentSettings, within_session: bool, work: Work) -> None:
    """Write the scores of held-out speakers (``held_out.parquet``: first, second, score, target), and a record.

    Inputs are ``vectors`` (ids ``UTT`` or ``UTT#k``, a piece), ``vectors.1``, ... (other draws of the anonymiser's random numbers,
    from which is learnt alone), ``sexes`` (``f``, ``m`` or ``u`` by speaker, of all speakers of the training set, whether or not
    they have usable vectors: a network of the run has learnt from all but those held out of them) and ``backend`` where one is not
    fitted in the run.
    The back end learns from the other speakers' vectors of all draws, with the whole of them as a cohort where it takes more; a
    vector of the first draw is a model of one.

    What the back end chooses (a shrinkage, a regularisation), it chooses on these same pairs, as in the run. So the EER lies a
    little on the optimistic side for the attacker: one of a handful of values was chosen by it. It serves to choose between
    attacks, and is not printed as privacy.

    The record has ``eer`` (ROCCH, a fraction) and ``cllr_min`` (bits), None where there are none, then with a ``reason``;
    ``speakers`` (compared), ``n_target``, ``n_nontarget``, ``same_session`` (targets are pieces of one recording) and ``summary``.
    """
    draws = [draw.usable() for draw in compute.read_draws(work)]
    sexes: dict[str, str] = work.input("sexes")
    first = draws[0]
    held_out = hold_out_speakers(sexes, sexes)
    compared = pair_held_out(first.ids, first.speakers, held_out, sexes)
    reason = ""
    if compared.speakers < 2:
        reason = f"{compared.speakers} held-out speakers, and it takes 2"
    elif not compared.n_target:
        reason = "no held-out speaker has a second recording or piece"
    elif not compared.n_nontarget:
        reason = "no two held-out speakers are of one sex"
    scores = np.zeros(0)
    if not reason:
        try:
            scores = _scores(backend, settings, within_session, draws, held_out, compared, work)
        except DataError as error:
            reason = f"the back end cannot learn from the other speakers: {error.what}"
    listed = compared if not reason else pair_held_out((), (), ())
    ids = np.array([first.ids[row] for row in listed.rows], dtype=object)
    table = pd.DataFrame(
        {
            "first": pd.Series(ids[listed.first], dtype="str"),
            "second": pd.Series(ids[listed.second], dtype="str"),
            "score": scores.astype(np.float64),
            "target": listed.target,
        }
    )
    table.to_parquet(work.folder() / PAIRS, index=False)
    records.write(work.folder(), _record(scores, compared, reason))


def _scores(
    backend: type[Backend],
    settings: ComponentSettings,
    within_session: bool,
    draws: list[Vectors],
    held_out: frozenset[str],
    compared: HeldOutPairs,
    work: Work,
) -> np.ndarray:
    vectors = draws[0].vectors[compared.rows]
    with tempfile.TemporaryDirectory(dir=work.folder()) as folder:  # in the store: no other place need have room
        if work.has("backend") or not backend.is_fitted(settings):
            scorer = compute.load_backend(backend, settings, work)
        else:
            training = np.concatenate([draw.vectors for draw in draws])
            speakers = [name for draw in draws for name in draw.speakers]
            fewer = backend.with_speakers(settings, len(set(speakers) - held_out))
            choice = compared.choice(speakers, held_out, alone=True)
            backend.fit(fewer, training, speakers, Path(folder), within_session=within_session, choice=choice)
            scorer = backend(fewer, Path(folder))
        models = scorer.enrol(vectors, np.arange(len(vectors)), len(vectors))
        return np.asarray(scorer.score(models, vectors)[compared.first, compared.second])


def _record(scores: np.ndarray, compared: HeldOutPairs, reason: str) -> dict[str, Any]:
    names = ("speakers", "n_target", "n_nontarget", "same_session")
    facts = {**{name: getattr(compared, name) for name in names}, "reason": reason}
    if reason:
        return {**facts, "eer": None, "cllr_min": None, "summary": f"no EER on held-out training speakers: {reason}"}
    classes = scores[compared.target], scores[~compared.target]
    rate = eer(*classes)
    which = "pieces of one recording" if compared.same_session else "different recordings"
    return {
        **facts,
        "eer": rate,
        "cllr_min": cllr_min(*classes),
        "summary": f"EER {100 * rate:.2f} % on {compared.speakers} held-out training speakers "
        f"({compared.n_target} target pairs, {which})",
    }
