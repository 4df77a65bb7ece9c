"""End-to-end evaluation of voice anonymisation and pseudonymisation.

``evaluate``, ``plan`` and ``read`` do in Python what the command line does; ``metrics`` is the metric core, which needs numpy and
scipy alone; ``contracts`` says how to write components; ``errors`` is what they raise. Nothing of it is loaded before it is used.
"""

import sys

# `python -m pipeline`: what lies in the current folder may be a stranger's, and not even `__future__` is imported from there.
_AS_MODULE = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("pipeline")
if _AS_MODULE and not sys.flags.safe_path and f"{sys.path[0]}/pipeline" != __path__[0]:
    del sys.path[0]

from typing import TYPE_CHECKING, Any  # noqa: E402

from pipeline.version import __version__ as __version__  # noqa: E402

__all__ = ["Planned", "Result", "contracts", "errors", "evaluate", "metrics", "plan", "read"]

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline import contracts, errors, metrics
    from pipeline.evaluation import Planned, Result, Sent


def evaluate(*overrides: str) -> "Result | Sent":
    """Evaluate, as ``voice-privacy`` does with these overrides.

    Args:
        overrides: as on the command line: ``"recipe=kaldi"``, ``"dataset.root=DIR"``, ``"system=b2"``, ``"metric.srd.unit=utterance"``;
            ``"--config-dir=DIR"`` adds options of your own.

    Returns:
        The result; where values do not stand on everything that was expected, ``result.error`` says so.
        With ``executor=slurm`` what was sent: its jobs write the result into ``folder``, from where :func:`read` has it.

    Raises:
        PipelineError: what, where, likely cause and what mends it.
    """
    from pipeline import evaluation
    from pipeline.cli.compose import compose

    evaluation_asked, values = compose(overrides)
    return evaluation.evaluate(evaluation_asked, values, overrides)


def plan(*overrides: str) -> "Planned":
    """What a run with these overrides would reuse and compute.

    Raises:
        PipelineError: as :func:`evaluate`.
    """
    from pipeline import evaluation
    from pipeline.cli.compose import compose

    return evaluation.plan(compose(overrides)[0])


def read(run: "Path | str") -> "Result":
    """A finished run by its folder: what it measured as tables of pandas, in the columns that follow.

    Units are those of the results (fractions 0 to 1, bits, dB), an interval is a 95 % interval over speakers, an absent number NaN, an
    absent text ''. What each column means in full: data_manifests/README.md, section 10.

    ``rows``, one a number:
        schema_version run_id; what the number is of: dataset subset condition system system_level attacker extractor trained_on
        backend calibration metric variant estimator input_unit; the number or word: value label unit direction; low high of its
        interval, null_low null_high of its null band, and the ceiling; n_expected n_used n_speakers n_target n_nontarget; status reason
        note; signature config_digest input_digest model_digest code_version device.
    ``leaderboard``, one a subset and system, best first:
        dataset subset n_sets system system_level anonymised verdict withheld rank; the strongest attack: condition attacker extractor trained_on backend by_set,
        out of n_attacks of which so many contenders cannot be told apart, what is untried or unchecked; d_ece d_ece_low d_ece_high of the
        maximum over attacks, d_ece_corrected, null_low null_high p_chance and what follows, chance; eer eer_low eer_high of that attack, and of all
        lowest_eer lowest_eer_low lowest_eer_high lowest_eer_attack; of those that enrol protected speech pp_attack pp_d_ece pp_eer pp_p_chance;
        l_w l_w_ceiling tag; taken from elsewhere, each with its interval and by what: alid_ceiling alid_chance alid alid_low alid_high alid_by
        mean_d mean_d_low mean_d_high mean_d_by idr
        idr_low idr_high idr_by deid deid_low deid_high deid_by g_vd g_vd_low g_vd_high g_vd_by; n_expected n_used n_target n_nontarget
        n_speakers status reason interval_reason null_reason.
    ``attacks``, one a subset, system and attack, the strongest first:
        dataset subset system condition attacker extractor trained_on backend d_ece d_ece_low d_ece_high eer eer_low eer_high contends
        held_out status.
    ``differences``, one a subset, pair of systems, kind of attack and metric:
        dataset subset under system reference baseline unprotected attack reference_attack metric unit value reference_value difference low high
        p_value p_holm n_compared n_speakers swaps exact status reason sentence.
    ``speakers``, one a subset, system, attack and speaker, the worst protected first:
        dataset subset system condition attacker extractor trained_on backend, whether that is the strongest; speaker rank worst d_ece
        d_ece_low d_ece_high median p_median against_median eer alid srd_rank_median deid; under the strongest attack on unprotected
        speech original_d_ece original_d_ece_low original_d_ece_high original_eer original_attack before; sex mean_f0 mean_f0_protected
        trial_seconds enrolment_seconds nearest nearest_score own_score target_llr impostor_llr max_llr doddington dunstone_yager
        utterance_1 llr_1 utterance_2 llr_2 utterance_3 llr_3 n_speakers n_target n_nontarget n_utterances status reason.
    ``worst_overlap``, one a subset, system and pair of attacks:
        dataset subset system condition attacker extractor trained_on backend strongest other_condition other_attacker other_extractor
        other_trained_on other_backend n_speakers listed shared shared_chance jaccard jaccard_chance p_value rank_correlation names
        status.

    Raises:
        ConfigError: the folder holds no results.
        DataError: its files are not what the run wrote.
    """
    from pipeline import evaluation

    return evaluation.read(run)


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("contracts", "errors", "metrics"):
        return importlib.import_module(f"pipeline.{name}")
    if name in ("Planned", "Result"):
        return getattr(importlib.import_module("pipeline.evaluation"), name)
    raise AttributeError(f"module 'pipeline' has no attribute '{name}'")
