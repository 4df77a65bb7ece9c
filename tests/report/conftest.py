"""Invented run folders for the tests of the report: plausible shapes, ids that try to break the page."""

from __future__ import annotations

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
PRIVATE = {
    "eer": "higher is more private",
    "cllr_min": "higher is more private",
    "d_ece": "lower is more private",
    "l_w": "lower is more private",
    "tag": "",
    "cllr": "",
    "deid": "higher is more private",
    "g_vd": "",
    "d_diag": "",
    "max_d": "lower is more private",
    "mean_d": "lower is more private",
    "idr": "lower is more private",
    "rank_spread": "higher is more private",
}
UNIT = {
    "eer": "fraction",
    "cllr_min": "bit",
    "cllr": "bit",
    "d_ece": "bit",
    "l_w": "log10",
    "tag": "tag",
    "deid": "fraction",
    "g_vd": "dB",
    "d_diag": "",
    "max_d": "bit",
    "mean_d": "bit",
    "idr": "fraction",
    "rank_spread": "fraction",
    "novelty_index": "furlong",
}


def row(metric: str, value: float = np.nan, variant: str = "", **more: Any) -> dict[str, Any]:
    base = {
        "run_id": "20261127T101500Z-kaldi-1a2b3c",
        "dataset": "kaldi",
        "backend": "cosine",
        "calibration": "pav",
        "metric": metric,
        "variant": variant,
        "value": value,
        "unit": UNIT[metric],
        "direction": PRIVATE.get(metric, ""),
        "n_expected": 3464,
        "n_used": 3464,
        "n_speakers": 12,
        "status": "ok",
        "signature": f"metric:{metric}|variant:{variant}|pairing:all|seed:0|version:1",
        "config_digest": "c0ffee" * 10,
        "input_digest": "ab" * 32,
        "code_version": "0.1.0",
        "device": "cpu",
    }
    return {**base, **more}


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
    for subset in SUBSETS:
        for system, strength in SYSTEMS.items():
            level = {"original": "", "b2": "fixed"}.get(system, "speaker")
            for attacker, protected in ATTACKS.items():
                condition = "OO" if system == "original" else protected
                leak = strength * (1.0 if attacker == "ignorant" else 1.6)
                common = {
                    "subset": subset,
                    "system": system,
                    "system_level": level,
                    "condition": condition,
                    "attacker": attacker,
                    "extractor": "ge2e",
                    "n_target": 369,
                    "n_nontarget": 3095,
                }
                eer = 0.5 * np.exp(-leak / 3)
                found += [
                    row(
                        "eer",
                        eer,
                        "rocch",
                        low=eer * 0.8,
                        high=min(0.5, eer * 1.2),
                        null_low=0.44,
                        null_high=0.5,
                        **common,
                    ),
                    row("cllr", reason="scores are not LLRs", **common),
                    row("cllr_min", 1 - 0.9 * (1 - np.exp(-leak)), low=0.1, high=0.99, **common),
                    row(
                        "d_ece",
                        0.7 * (1 - np.exp(-leak / 2)),
                        low=0.001,
                        high=0.6,
                        null_low=0.0002,
                        null_high=0.0146,
                        **common,
                    ),
                    row("l_w", min(3.98, 0.4 + leak), ceiling=3.98, **common),
                    row("tag", label="A" if leak < 0.6 else "C", **common),
                ]
            if system != "original":
                common = {"subset": subset, "system": system, "system_level": level, "extractor": "ge2e"}
                gain = -np.inf if system == NASTY_SYSTEM else -1.5 - strength
                found += [
                    row("deid", 1 - strength / 6, low=0.2, high=1.0, condition="OP", **common),
                    row("g_vd", gain, condition="PP", **common),
                    *(
                        row("d_diag", 0.1 + strength / 10, condition=condition, **common)
                        for condition in ("OO", "OP", "PP")
                    ),
                    row("novelty_index", 12345.678, condition="PP", **common),
                ]
    for system, strength in SYSTEMS.items():
        for extractor in EXTRACTORS:
            for estimator in ("empirical", "beta_binomial"):
                common = {
                    "subset": "pooled",
                    "system": system,
                    "extractor": extractor,
                    "backend": "",
                    "condition": "OO" if system == "original" else "OP",
                    "calibration": "",
                    "estimator": estimator,
                }
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


def figure_tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    profiles, similarity, zoo, speakers, ranks = [], [], [], [], []
    for s, subset in enumerate(SUBSETS):
        for system, strength in SYSTEMS.items():
            for attacker, protected in ATTACKS.items():
                leak = strength * (1.0 if attacker == "ignorant" else 1.6)
                profiles.append(
                    _ece(leak, s).assign(
                        subset=subset,
                        system=system,
                        condition="OO" if system == "original" else protected,
                        attacker=attacker,
                        extractor="ge2e",
                        backend="cosine",
                    )
                )
            for block in ["OO"] if system == "original" else ["OO", "OP", "PP"]:
                mark = 0.55 if block == "OO" else 0.09 * strength
                matrix = np.clip(0.3 + 0.1 * rng.standard_normal((12, 12)) + mark * np.eye(12), 0, 1)
                similarity.append(
                    pd.DataFrame(
                        {
                            "subset": subset,
                            "system": system,
                            "extractor": "ge2e",
                            "backend": "cosine",
                            "block": block,
                            "row_speaker": np.repeat(SPEAKERS, 12),
                            "column_speaker": np.tile(SPEAKERS, 12),
                            "similarity": matrix.ravel(),
                        }
                    )
                )
            for block in ["OO"] if system == "original" else ["OO", "OP original side", "OP protected side", "PP"]:
                scale = 6.0 if block == "OO" else strength
                x, y = rng.normal(scale, 0.8, 12), rng.normal(-scale, 0.8, 12)
                low, high = np.quantile(x, [0.25, 0.75]), np.quantile(y, [0.25, 0.75])
                doddington = ["goat" if a <= low[0] else "wolf/lamb" if b >= high[1] else "sheep" for a, b in zip(x, y)]
                yager = [
                    "worm"
                    if a <= low[0] and b >= high[1]
                    else "dove"
                    if a >= low[1] and b <= high[0]
                    else "phantom"
                    if a <= low[0] and b <= high[0]
                    else "chameleon"
                    if a >= low[1] and b >= high[1]
                    else ""
                    for a, b in zip(x, y)
                ]
                zoo.append(
                    pd.DataFrame(
                        {
                            "subset": subset,
                            "system": system,
                            "extractor": "ge2e",
                            "backend": "cosine",
                            "block": block,
                            "speaker": SPEAKERS,
                            "x": x,
                            "y": y,
                            "doddington": doddington,
                            "dunstone_yager": yager,
                        }
                    )
                )
            none = np.full(12, np.nan)
            own = system == "original"
            speakers.append(
                pd.DataFrame(
                    {
                        "subset": subset,
                        "system": system,
                        "extractor": "ge2e",
                        "backend": "cosine",
                        "speaker": SPEAKERS,
                        "diagonal_oo": 0.85,
                        "diagonal_op": none if own else 0.3 + 0.04 * np.arange(12),
                        "diagonal_pp": none if own else 0.5,
                        "deid": none if own else 0.9 - 0.05 * np.arange(12),
                        "d_ece": 0.01 * np.arange(12) * strength,
                        "max_llr": 2.0 + strength,
                        "srd_rank_median": none,
                    }
                )
            )
    for system, strength in SYSTEMS.items():
        for extractor, factor in (("ge2e", 1.0), ("f0", 0.35)):
            alpha, beta = 1 / (1 + factor * strength), 1 + 0.6 * factor * strength
            fit = betabinom.pmf(np.arange(20), 19, alpha, beta)
            ranks.append(
                pd.DataFrame(
                    {
                        "subset": "pooled",
                        "system": system,
                        "condition": "OO" if system == "original" else "OP",
                        "extractor": extractor,
                        "unit": "segment",
                        "rank": np.arange(1, 21),
                        "share": rng.multinomial(400, fit) / 400,
                        "fit": fit,
                        "n_references": 20,
                    }
                )
            )
    return {
        "ece_profile": pd.concat(profiles),
        "similarity": pd.concat(similarity),
        "zoo": pd.concat(zoo),
        "speakers": pd.concat(speakers),
        "ranks": pd.concat(ranks),
    }


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
