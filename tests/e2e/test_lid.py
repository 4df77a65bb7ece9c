"""Disclosure of one among N through the command line: rows from scores of all candidates, and the figures in the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pipeline import cli
from pipeline.evaluation.result import Result, read
from pipeline.metrics import attribute_part, lid, loso_slopes, pi_link_curve, softmax_slope
from tests import toy
from tests.datasets.test_scores import vpc2024
from tests.e2e.test_precomputed import written

Run = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Measure vectors that are there already, by default of original speech alone; the run folder."""
    monkeypatch.chdir(tmp_path)

    def command(root: Path, *arguments: str) -> Path:
        threads = torch.get_num_threads()
        status = cli.run([
            "recipe=kaldi", f"dataset.root={root}", "system=[original]", "extractor=[precomputed]", "diagnostics=false",
            f"+extractor.precomputed.vectors={{original: {tmp_path / 'original'}, b2: {tmp_path / 'b2'}}}", "attacker=[ignorant]",
            "runtime.threads=1", "metric=[lid]", "metric.lid.replicates=20", *arguments,
        ])  # fmt: skip
        torch.set_num_threads(threads)
        out, err = capfd.readouterr()
        assert status == 0, err
        return Path(out.splitlines()[-1]).parent

    return command


def told(folder: Path, table: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in (folder / table).read_text().splitlines())


def cosines(root: Path, subset: str, vectors: dict[str, np.ndarray]) -> tuple[pd.DataFrame, np.ndarray]:
    """Every trial utterance of a set (rows) against every speaker of the set (columns), and the true columns."""
    speakers, spoken = told(root / "toy_enrolls", "utt2spk"), told(root / subset, "utt2spk")
    names = sorted(set(spoken.values()))
    vectors = {
        one: vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64)) for one, vector in vectors.items()
    }
    models = np.stack([np.mean([vectors[one] for one, of in speakers.items() if of == name], axis=0) for name in names])
    tried = np.stack([vectors[one] for one in sorted(spoken)])
    models, tried = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (models, tried))
    truth = np.array([names.index(spoken[one]) for one in sorted(spoken)])
    return pd.DataFrame(tried @ models.T, sorted(spoken), names), truth


def value(made: Result, **wanted: str) -> float:
    rows = made.rows
    for column, text in wanted.items():
        rows = rows[rows[column] == text]
    return float(rows["value"].item())


def test_candidates_that_the_list_does_not_try_are_scored_and_an_attribute_is_told_apart(
    tmp_path: Path, run: Run
) -> None:
    root = toy.corpus(tmp_path / "data", speakers=8, utterances=4)
    vectors = written(root, tmp_path / "original", 1)
    trials = root / "toy_trials_f" / "trials"
    lines = [line for line in trials.read_text().splitlines() if line]
    lacking = next(line for line in lines if line.endswith(" nontarget"))
    trials.write_text("".join(f"{line}\n" for line in lines if line != lacking))
    speakers = sorted(told(root / "toy_enrolls", "spk2gender"))
    accents = {name: ("north", "south")[k // 2 % 2] for k, name in enumerate(speakers)}
    (root / "toy_enrolls" / "spk2accent").write_text("".join(f"{name} {of}\n" for name, of in accents.items()))
    made = read(run(root, "dataset.attributes=[accent]", "metric.lid.lengths=[]"))
    assert (made.rows["status"] == "ok").all()
    for subset, n in (("toy_trials_f", 31), ("toy_trials_m", 32)):
        listed = made.scores(subset=subset)
        scores, truth = cosines(root, subset, vectors)
        assert len(listed) == n
        found = [scores.loc[one.utterance, one.model] for one in listed.itertuples()]
        assert listed["score"].to_numpy() == pytest.approx(found, abs=1e-6)
        slopes = loso_slopes(scores.to_numpy(), truth).value
        whole = lid(scores.to_numpy(), truth, slopes)
        at = {"subset": subset, "variant": "loso"}
        assert value(made, metric="alid", **at) == pytest.approx(whole.alid, abs=1e-4)
        assert value(made, metric="alid_chance", **at) == pytest.approx(whole.chance.alid, abs=1e-4)
        classes = np.array([("north", "south").index(accents[name]) for name in scores.columns])
        part = attribute_part(scores.to_numpy(), truth, classes, slopes)
        of_accent = {"subset": subset, "variant": "loso, accent"}
        assert value(made, metric="alid_attribute", **of_accent) == pytest.approx(part.mean_attribute, abs=1e-4)
        assert value(made, metric="alid_within", **of_accent) == pytest.approx(part.mean_within, abs=1e-4)
        # Rates are those of the list.
        rates = made.rows[(made.rows["subset"] == subset) & (made.rows["metric"] == "tpr_at_fpr")]
        assert (rates["n_used"] == n).all() and (rates["reason"].str.contains("cannot show")).all()
    # The report has ALID and PDR beside their chance, LID_max beside its ceiling, and CSV has the same rows.
    report = (made.folder / "report.html").read_text(encoding="utf-8")
    for text in ("Local information disclosure: toy_trials_f", "Linkability by population: toy_trials_m"):
        assert text in report
    table = pd.read_csv(made.folder / "results.csv")
    for first, second in (("alid", "alid_chance"), ("pdr", "pdr_chance"), ("lid_max", "lid_max_ceiling")):
        assert (table["metric"] == first).sum() == (table["metric"] == second).sum() == 2
    heads = made.summary()
    for symbol in ("ALID", "ALID_0", "PDR", "PDR_0", "LID_max", "LID_max,ceil", "ALID_attr", "ALID_within"):
        assert symbol in heads


@pytest.mark.slow
def test_slopes_of_a_development_set_and_both_sexes_in_one_list(tmp_path: Path, run: Run) -> None:
    root = toy.corpus(tmp_path / "data", speakers=8, utterances=4)
    vectors = written(root, tmp_path / "original", 1)
    written(root, tmp_path / "b2", 2)
    made = read(
        run(root, "system=[b2]", "metric.lid.development={toy_trials_f: toy_trials_m}", "metric.lid.lengths=[1,2]")
    )
    parts = {subset: cosines(root, subset, vectors) for subset in ("toy_trials_f", "toy_trials_m")}
    (dev, of_dev), (scores, truth) = parts["toy_trials_m"], parts["toy_trials_f"]
    slope = softmax_slope(dev.to_numpy(), of_dev).value
    at = {"subset": "toy_trials_f", "system": "original", "metric": "alid"}
    assert value(made, variant="dev", **at) == pytest.approx(lid(scores.to_numpy(), truth, slope).alid, abs=1e-4)
    assert set(made.rows.loc[(made.rows["subset"] == "toy_trials_m") & (made.rows["metric"] == "alid"), "variant"]) == {
        "loso"
    }
    assert set(made.rows["system"]) == {"original", "b2"}
    links = made.rows[(made.rows["metric"] == "pi_link") & (made.rows["variant"] == "among 4")]
    one = links[(links["subset"] == "toy_trials_f") & (links["system"] == "original")]
    assert one["value"].item() == pytest.approx(pi_link_curve(scores.to_numpy(), truth).value[-1], abs=1e-12)
    report = (made.folder / "report.html").read_text(encoding="utf-8")
    assert "Longer conversations: toy" in report and "PDR" in report

    both = root / "toy_trials"
    both.mkdir()
    for table in ("wav.scp", "utt2spk", "spk2gender", "trials"):
        (both / table).write_text("".join((root / of / table).read_text() for of in parts))
    made = read(run(root, "dataset.sets=[toy_trials]", "metric.lid.lengths=[]"))
    found = [lid(one.to_numpy(), of, loso_slopes(one.to_numpy(), of).value) for one, of in parts.values()]
    assert value(made, metric="alid") == pytest.approx(np.mean(np.concatenate([one.lid for one in found])), abs=1e-4)
    assert not (made.rows["metric"] == "alid_attribute").any()
    # A list that scores across the sexes is one matrix, and the part that is sex is said.
    with (both / "trials").open("a") as file:
        women, men = (told(root / of, "utt2spk") for of in parts)
        file.write(f"{next(iter(women.values()))} {next(iter(men))} nontarget\n")
    made = read(run(root, "dataset.sets=[toy_trials]", "metric.lid.lengths=[]"))
    alid, part = value(made, metric="alid"), value(made, metric="alid_attribute")
    assert made.rows.loc[made.rows["metric"] == "alid_attribute", "variant"].item() == "loso, sex"
    assert part + value(made, metric="alid_within") == pytest.approx(alid, abs=1e-12)
    assert value(made, metric="pi_link", variant="among 8") > 0.5


@pytest.mark.slow
def test_scores_alone_have_it_too_of_both_sexes_together_and_with_slopes_of_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vpc2024(tmp_path / "given")
    common = [
        "recipe=bring_your_scores",
        "dataset.root=given",
        "paths.root=exp",
        "metric=[lid]",
        "metric.lid.replicates=20",
    ]
    status = cli.run(
        [*common, "dataset.pool=true", "metric.lid.development={libri_test_trials_f: libri_test_trials_m}"]
    )
    out, err = capfd.readouterr()
    assert status == 0, err
    made = read(Path(out.splitlines()[-1]).parent)
    attacks = [
        ("original", "unprotected"),
        ("mcadams", "ignorant"),
        ("mcadams", "lazy_informed"),
        ("mcadams", "semi_informed"),
    ]
    for system, attacker in attacks:
        parts = {}
        for sex in "fm":
            table = made.scores(subset=f"libri_test_trials_{sex}", system=system, attacker=attacker)
            wide = table.pivot(index="utterance", columns="model_speaker", values="score")
            spoken = dict(zip(table["utterance"], table["speaker"]))
            wide = wide.loc[[spoken[one] in wide.columns for one in wide.index]]
            parts[sex] = wide.to_numpy(), np.array([wide.columns.get_loc(spoken[one]) for one in wide.index])
        found = [lid(*one, loso_slopes(*one).value).lid for one in parts.values()]
        at = {"metric": "alid", "system": system, "attacker": attacker}
        pooled = value(made, subset="libri_test (pooled)", **at)
        assert pooled == pytest.approx(np.mean(np.concatenate(found)), abs=1e-12)
        dev = softmax_slope(*parts["m"]).value
        want = lid(*parts["f"], dev).alid
        assert value(made, subset="libri_test_trials_f", variant="dev", **at) == pytest.approx(want, abs=1e-12)
    # Speakers who are in both are no others; the message has what goes on without.
    wrong = "metric.lid.development={libri_test_trials_f: 'libri_test (pooled)'}"
    assert cli.run([*common, "dataset.pool=true", wrong]) == 2
    said = capfd.readouterr().err
    assert (
        "speakers are in libri_test_trials_f and in libri_test (pooled)" in said
        and "metric.lid.development=null" in said
    )
    assert cli.run([*common, "dataset.pool=true", wrong, "metric.lid.development=null"]) == 0
