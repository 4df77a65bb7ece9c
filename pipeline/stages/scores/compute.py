"""Score: every number that compares two recordings is made here, of trials, of all pairs, and of inputs with references."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipeline.contracts import Backend, ComponentSettings, Enrolment, Extractor, Vectors
from pipeline.engine.task import Work
from pipeline.protocol.trials import TrialSet
from pipeline.stages.backends import compute
from pipeline.tables import scores
from pipeline.tables.scores import ScoreMatrix

VERSION = "scores 2"


def score_trials(backend: type[Backend], settings: ComponentSettings, work: Work) -> None:
    """Write ``scores.parquet`` (model, utterance, score, target, and the speakers of both), joined on ids.

    Several enrolment utterances of a model become one score as the back end's ``enrolment`` says. The input ``enrolment`` is the first
    draw of the enrolment; ``enrolment.1``, ``enrolment.2``, ... are others, and a model has the utterances of all. The back end may
    adapt to them first.
    Trials that lost their model or their utterance (nothing could be extracted) are left out and named in the record;
    the results say how many were expected and how many used. Models that are made of fewer recordings than are listed stand
    in ``thinned.parquet``, and what is measured of these scores does not stand on everything that was expected.
    """
    listed: TrialSet = work.input("trials")
    draws: list[Vectors] = compute.read_draws(work, "enrolment")
    trial: Vectors = work.input("trial")
    unusable = list(dict.fromkeys(entry for draw in (*draws, trial) for entry in draw.unusable()))
    draws, trial = [draw.usable() for draw in draws], trial.usable()

    places = [{name: row for row, name in enumerate(draw.ids)} for draw in draws]
    covered = [listed.enrolment["utterance"].isin(rows) for rows in places]
    lacking = listed.enrolment[~np.logical_and.reduce(covered)]
    members = pd.concat([listed.enrolment[kept] for kept in covered])
    models = sorted(members["model"].unique())
    number = {model: row for row, model in enumerate(models)}
    vectors = [draw.vectors[[rows[name] for name in listed.enrolment.loc[kept, "utterance"]]]
               for draw, rows, kept in zip(draws, places, covered)]  # fmt: skip
    enrolled, model = np.concatenate(vectors), np.array([number[name] for name in members["model"]], dtype=int)
    scorer = compute.load_backend(backend, settings, work).adapt(enrolled, model, len(draws))
    matrix = _of_models(scorer, backend.enrolment(settings), enrolled, model, len(models), trial.vectors)

    column = {name: place for place, name in enumerate(trial.ids)}
    table = listed.trials
    table = table[table["model"].isin(number) & table["utterance"].isin(column)]
    values = matrix[[number[model] for model in table["model"]], [column[name] for name in table["utterance"]]]
    speaker = dict(zip(trial.ids, trial.speakers))
    claimed = {name: speaker for draw in draws for name, speaker in zip(draw.ids, draw.speakers)}
    model_speaker = {model: claimed[name] for model, name in zip(members["model"], members["utterance"])}
    scored = pd.DataFrame(
        {
            "model_speaker": [model_speaker[model] for model in table["model"]],
            "speaker": [speaker[name] for name in table["utterance"]],
            "model": table["model"].astype(str).to_numpy(),
            "utterance": table["utterance"].astype(str).to_numpy(),
            "score": values.astype(np.float64),
            "target": table["target"].astype(bool).to_numpy(),
        }
    ).sort_values(["model", "utterance"], kind="stable")
    scored.to_parquet(work.folder() / scores.TRIALS, index=False)
    reasons, used = dict(unusable), set(scored["model"])
    thinned = zip(lacking["model"], lacking["utterance"])
    scores.write_thinned(work.folder(), [(model, name, reasons[name]) for model, name in thinned if model in used])
    work.note(lost=[list(entry) for entry in unusable], n_expected=len(listed.trials), n_used=len(scored))


def _of_models(
    scorer: Backend, enrolment: Enrolment, vectors: np.ndarray, model: np.ndarray, n_models: int, trials: np.ndarray
) -> np.ndarray:
    """Scores of models against trial vectors [n, d], float64 [n_models, n].

    Where scores are joined, each enrolment vector [k, d] is a model of one; ``model`` [k] is the number of the model that its
    scores then count for.
    """
    if enrolment == "mean_of_embeddings":
        return scorer.score(scorer.enrol(vectors, model, n_models), trials)
    single = scorer.score(scorer.enrol(vectors, np.arange(len(vectors)), len(vectors)), trials)
    if enrolment == "max_of_scores":
        highest = np.full((n_models, len(trials)), -np.inf)
        np.maximum.at(highest, model, single)
        return highest
    total = np.zeros((n_models, len(trials)))
    np.add.at(total, model, single)
    return total / np.bincount(model, minlength=n_models)[:, None]


def score_pairs(backend: type[Backend], settings: ComponentSettings, work: Work) -> None:
    """Write the scores of all utterances of one speech against all of another, ``rows`` and ``columns`` among the inputs.

    An utterance is a model of one: both sides of a pair are treated alike.
    """
    rows, columns = work.input("rows").usable(), work.input("columns").usable()
    scorer = compute.load_backend(backend, settings, work)
    models = scorer.enrol(rows.vectors, np.arange(len(rows.ids)), len(rows.ids))
    lost = _list_lost(work.input("rows"), work.input("columns"))
    matrix = scorer.score(models, columns.vectors)
    scores.write(work.folder(), ScoreMatrix(matrix, rows.ids, rows.speakers, columns.ids, columns.speakers, lost))
    work.note(lost=[list(entry) for entry in lost])


def score_ranks(extractor: type[Extractor], work: Work) -> None:
    """Write the similarity of inputs to one reference a speaker, the pooled vectors of that speaker's reference half: cosine, or minus
    the Euclidean distance.

    Where evidence is optional, an input without any is equally similar to all references; else it is lost. Without a reference
    or without an input the matrix is empty, and says what was lost.
    """
    reference: Vectors = work.input("reference")
    inputs: Vectors = work.input("input")
    lost = _list_lost(reference, inputs)
    reference = reference.usable()
    if not extractor.evidence_optional:
        inputs = inputs.usable()
    speakers = tuple(sorted(set(reference.speakers)))
    owner = np.array(reference.speakers)
    references = [
        extractor.pool(reference.vectors[owner == name], reference.weights[owner == name]) for name in speakers
    ]
    enrolled = set(speakers)
    kept = [row for row, name in enumerate(inputs.speakers) if name in enrolled]
    similarity = np.zeros((len(kept), len(speakers)))
    told = inputs.weights[kept] > 0
    vectors = inputs.vectors[kept][told].astype(np.float64)
    if len(vectors):
        told_of = np.stack(references).astype(np.float64)
        if extractor.similarity == "cosine":
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            similarity[told] = vectors @ (told_of / np.linalg.norm(told_of, axis=1, keepdims=True)).T
        else:
            # Differences first: the expanded square would round away the small distances that decide ranks.
            similarity[told] = -np.sqrt(((vectors[:, None, :] - told_of[None, :, :]) ** 2).sum(axis=2))
    ids = tuple(inputs.ids[row] for row in kept)
    owners = tuple(inputs.speakers[row] for row in kept)
    # Where evidence is optional, audio without any is in the result, as a tie; it is named all the same.
    named = {"ties" if extractor.evidence_optional else "lost": lost}
    scores.write(work.folder(), ScoreMatrix(similarity, ids, owners, speakers, speakers, **named))
    work.note(**{"without_evidence" if name == "ties" else name: [list(entry) for entry in lost] for name in named})


def _list_lost(*draws: Vectors) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(entry for vectors in draws for entry in vectors.unusable()))
