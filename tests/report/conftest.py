"""Invented run folders for the tests of the report: plausible shapes, ids that try to break the page."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom

from pipeline.tables import results

SUBSETS = ["libri_dev_trials_f", 'set $x_2$ <i>&amp;</i> "m"']
NASTY_SYSTEM = "t8<script>alert('t8')</script>"
SYSTEMS = {"original": 6.0, "b2": 2.5, "b2r": 1.2, NASTY_SYSTEM: 0.02}
SPEAKERS = [
    '<script>alert("s")</script>',
    '" onmouseover="x',
    "=1+1|calc",
    "$\\frac{1}{0}$",
    "_hidden",
    "Ωmega-ü",
    "a--><b>",
    "tab\tnew\nline",
    *(str(number) for number in (84, 174, 251, 1272)),
]
EXTRACTORS = ["ge2e", "f0"]
ATTACKS = {"ignorant": "OP", "lazy_informed": "PP"}
HIGHER, LOWER = "higher is more private", "lower is more private"
METRICS = {
    "eer": ("fraction", HIGHER), "cllr_min": ("bit", HIGHER), "d_ece": ("bit", LOWER), "l_w": ("log10", LOWER), "tag": ("tag", ""),
    "cllr": ("bit", ""), "deid": ("fraction", HIGHER), "g_vd": ("dB", ""), "d_diag": ("", ""), "max_d": ("bit", LOWER),
    "mean_d": ("bit", LOWER), "idr": ("fraction", LOWER), "rank_spread": ("fraction", HIGHER), "novelty_index": ("furlong", ""),
}  # fmt: skip
"""Unit and direction."""


def row(metric: str, value: float = np.nan, variant: str = "", **more: Any) -> dict[str, Any]:
    unit, direction = METRICS[metric]
    return {
        "run_id": "20261127T101500Z-kaldi-1a2b3c", "dataset": "kaldi", "backend": "cosine", "calibration": "pav", "metric": metric,
        "variant": variant, "value": value, "unit": unit, "direction": direction, "n_expected": 3464, "n_used": 3464, "n_speakers": 12,
        "status": "ok", "signature": f"metric:{metric}|variant:{variant}|pairing:all|seed:0|version:1", "config_digest": "c0ffee" * 10,
        "input_digest": "ab" * 32, "code_version": "0.1.0", "device": "cpu", **more,
    }  # fmt: skip


def _llrs(strength: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    spread = np.sqrt(2 * strength)
    return rng.normal(strength, spread, 4000), rng.normal(-strength, spread, 4000)


def _ece(strength: float, seed: int) -> pd.DataFrame:
    odds = np.linspace(-7, 7, 57)
    prior = 1 / (1 + np.exp(-odds))
    target, impostor = _llrs(strength, seed)
    cost_target = np.logaddexp(0, -target[:, None] - odds).mean(0) / np.log(2)
    cost_impostor = np.logaddexp(0, impostor[:, None] + odds).mean(0) / np.log(2)
    entropy = -(prior * np.log2(prior) + (1 - prior) * np.log2(1 - prior))
    return pd.DataFrame({"log_odds": odds, "ece": prior * cost_target + (1 - prior) * cost_impostor, "prior": entropy})


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for subset, (system, strength) in itertools.product(SUBSETS, SYSTEMS.items()):
        level = {"original": "", "b2": "fixed"}.get(system, "speaker")
        about = {"subset": subset, "system": system, "system_level": level, "extractor": "ge2e"}
        for attacker, protected in ATTACKS.items():
            leak = strength * (1.0 if attacker == "ignorant" else 1.6)
            condition = "OO" if system == "original" else protected
            common = {**about, "condition": condition, "attacker": attacker, "n_target": 369, "n_nontarget": 3095}
            eer, d_ece = 0.5 * np.exp(-leak / 3), 0.7 * (1 - np.exp(-leak / 2))
            ends = {"low": eer * 0.8, "high": min(0.5, eer * 1.2), "null_low": 0.44, "null_high": 0.5}
            found += [
                row("eer", eer, "rocch", **ends, **common),
                row("cllr", reason="scores are not LLRs", **common),
                row("cllr_min", 1 - 0.9 * (1 - np.exp(-leak)), low=0.1, high=0.99, **common),
                row("d_ece", d_ece, low=0.001, high=0.6, null_low=0.0002, null_high=0.0146, **common),
                row("l_w", min(3.98, 0.4 + leak), ceiling=3.98, **common),
                row("tag", label="A" if leak < 0.6 else "C", **common),
            ]
        if system != "original":
            gain = -np.inf if system == NASTY_SYSTEM else -1.5 - strength
            found += [
                row("deid", 1 - strength / 6, low=0.2, high=1.0, condition="OP", **about),
                row("g_vd", gain, condition="PP", **about),
                *(row("d_diag", 0.1 + strength / 10, condition=name, **about) for name in ("OO", "OP", "PP")),
                row("novelty_index", 12345.678, condition="PP", **about),
            ]
    for (system, strength), extractor in itertools.product(SYSTEMS.items(), EXTRACTORS):
        for estimator in ("empirical", "beta_binomial"):
            condition = "OO" if system == "original" else "OP"
            common = {"subset": "pooled", "system": system, "extractor": extractor, "backend": "", "condition": condition,
                      "calibration": "", "estimator": estimator}  # fmt: skip
            weak = system == NASTY_SYSTEM and estimator == "beta_binomial"
            why = {"reason": "no input has rank 1, so there is no fit"} if weak else {}
            value = np.nan if weak else 1.0
            found += [
                row("max_d", value * (0.5 + strength / 3), **common, **why),
                row("mean_d", value * strength / 4, **common, **why),
                row("idr", value * (1 / 20 + strength / 10), **common, **why),
                row("rank_spread", value * 0.3, **common, **why),
            ]
    return found


def _name_animals(x: np.ndarray, y: np.ndarray) -> tuple[list[str], list[str]]:
    """Doddington's and Yager's names of speakers with these places in the zoo."""
    low, high = np.quantile(x, [0.25, 0.75]), np.quantile(y, [0.25, 0.75])
    doddington = ["goat" if a <= low[0] else "wolf/lamb" if b >= high[1] else "sheep" for a, b in zip(x, y)]
    names = {(True, True): "worm", (False, False): "dove", (True, False): "phantom", (False, True): "chameleon"}
    yager = [
        names[a <= low[0], b >= high[1]] if not (low[0] < a < low[1] or high[0] < b < high[1]) else ""
        for a, b in zip(x, y)
    ]
    return doddington, yager


def figure_tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    profiles, similarity, zoo, speakers, ranks = [], [], [], [], []
    for (s, subset), (system, strength) in itertools.product(enumerate(SUBSETS), SYSTEMS.items()):
        own, none = system == "original", np.full(12, np.nan)
        about = {"subset": subset, "system": system, "extractor": "ge2e", "backend": "cosine"}
        for attacker, protected in ATTACKS.items():
            leak = strength * (1.0 if attacker == "ignorant" else 1.6)
            profiles.append(_ece(leak, s).assign(**about, condition="OO" if own else protected, attacker=attacker))
        for block in ["OO"] if own else ["OO", "OP", "PP"]:
            mark = 0.55 if block == "OO" else 0.09 * strength
            matrix = np.clip(0.3 + 0.1 * rng.standard_normal((12, 12)) + mark * np.eye(12), 0, 1)
            pairs = {"row_speaker": np.repeat(SPEAKERS, 12), "column_speaker": np.tile(SPEAKERS, 12)}
            similarity.append(pd.DataFrame({**about, "block": block, **pairs, "similarity": matrix.ravel()}))
        for block in ["OO"] if own else ["OO", "OP original side", "OP protected side", "PP"]:
            scale = 6.0 if block == "OO" else strength
            x, y = rng.normal(scale, 0.8, 12), rng.normal(-scale, 0.8, 12)
            doddington, yager = _name_animals(x, y)
            places = {"speaker": SPEAKERS, "x": x, "y": y, "doddington": doddington, "dunstone_yager": yager}
            zoo.append(pd.DataFrame({**about, "block": block, **places}))
        values = {
            "diagonal_oo": 0.85, "diagonal_op": none if own else 0.3 + 0.04 * np.arange(12), "diagonal_pp": none if own else 0.5,
            "deid": none if own else 0.9 - 0.05 * np.arange(12), "d_ece": 0.01 * np.arange(12) * strength, "max_llr": 2.0 + strength,
            "srd_rank_median": none,
        }  # fmt: skip
        speakers.append(pd.DataFrame({**about, "speaker": SPEAKERS, **values}))
    for (system, strength), (extractor, factor) in itertools.product(SYSTEMS.items(), (("ge2e", 1.0), ("f0", 0.35))):
        fit = betabinom.pmf(np.arange(20), 19, 1 / (1 + factor * strength), 1 + 0.6 * factor * strength)
        about = {"subset": "pooled", "system": system, "condition": "OO" if system == "original" else "OP"}
        shares = {"rank": np.arange(1, 21), "share": rng.multinomial(400, fit) / 400, "fit": fit, "n_references": 20}
        ranks.append(pd.DataFrame({**about, "extractor": extractor, "unit": "segment", **shares}))
    parts = {"ece_profile": profiles, "similarity": similarity, "zoo": zoo, "speakers": speakers, "ranks": ranks}
    return {name: pd.concat(tables) for name, tables in parts.items()}


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    """Write a run folder; ``change`` edits the rows, ``tables`` replaces the figure data."""

    def make(
        folder: Path,
        run_id: str | None = None,
        change: Callable[[list[dict[str, Any]]], None] | None = None,
        tables: dict[str, pd.DataFrame] | None = None,
        status: dict[str, Any] | None = None,
    ) -> Path:
        content = rows()
        if change:
            change(content)
        if run_id:
            content = [{**one, "run_id": run_id} for one in content]
        (folder / "figures").mkdir(parents=True)
        results.write(results.frame(content), folder)
        for name, table in (figure_tables() if tables is None else tables).items():
            table.to_parquet(folder / "figures" / f"{name}.parquet", index=False)
        record = status or {"state": "done", "started": "2026-11-27T10:15:00Z", "ended": "2026-11-27T10:21:09Z"}
        (folder / "status.json").write_text(json.dumps(record))
        (folder / "environment.json").write_text(json.dumps({"python": "3.11.9", "host": "<b>box</b>"}))
        systems = "".join(f"  {json.dumps(name)}: {{name: mcadams}}\n" for name in SYSTEMS)
        (folder / "config.yaml").write_text(f"config_version: 1\nsystem:\n{systems}")
        return folder

    return make
