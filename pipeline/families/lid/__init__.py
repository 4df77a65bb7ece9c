"""Disclosure of one among N candidates: what each trial utterance says about who of the enrolled speakers speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline import contracts
from pipeline.contracts import FigureTable, Measured, Metric, Trials
from pipeline.families._common import count_trials, field_of, row
from pipeline.families.lid.rows import RowTemplate, alarm_rows, attribute_rows, disclosure_rows, rank_rows
from pipeline.families.lid.search import LidSettings, NoMatrix, Slopes, build_search
from pipeline.metrics.attribute import AttributePart, Stranger
from pipeline.metrics.evidence import FirstRank, TprEvidence
from pipeline.metrics.local_disclosure import Lid, LidChance

VERSION = "lid 2"

SOURCE = "arXiv 2607.06259"
DEFINED = "pipeline/metrics/README.md, section 14c"

METRICS = {
    "alid": field_of(
        Lid, "alid", "ALID", "average local information disclosure",
        "The information about who of the enrolled speakers speaks that an attacker gains from one trial utterance, on "
        "average over utterances: 0 bit means none, log2 N at most; below 0 the attacker is surer than it should be.",
        SOURCE,
    ),
    "alid_chance": field_of(
        LidChance, "alid", "ALID_0", "ALID at chance",
        "What ALID is worth where any candidate may be the speaker, at the same slope; exact.", SOURCE,
    ),
    "alid_speaker": field_of(
        Lid, "alid_speaker", "ALID_spk", "ALID, speakers weighing alike",
        "ALID as the mean over speakers of their own means.", SOURCE, summary=False,
    ),
    "pdr": field_of(
        Lid, "pdr", "PDR", "positive disclosure rate",
        "The share of trial utterances whose speaker the attacker thinks likelier than before; to be read against PDR_0, "
        "not against 50 %.", SOURCE,
    ),
    "pdr_chance": field_of(
        LidChance, "pdr", "PDR_0", "PDR at chance",
        "The share of candidates with more than 1/N of the posterior: PDR where any candidate may be the speaker; exact.",
        SOURCE,
    ),
    "lid_plus": field_of(
        Lid, "lid_plus", "LID+", "mean positive disclosure",
        "The mean of the positive disclosures.", SOURCE, summary=False,
    ),
    "lid_minus": field_of(
        Lid, "lid_minus", "LID-", "mean negative disclosure",
        "The mean of the other disclosures.", SOURCE, summary=False,
    ),
    "lid_max": field_of(
        Lid, "lid_max", "LID_max", "largest local information disclosure",
        "The information in the one trial utterance that says most; the slope and the number of candidates set a ceiling, "
        "which is shown beside it, and chance reaches most of it.", SOURCE,
    ),
    "lid_max_ceiling": field_of(
        Lid, "lid_max_ceiling", "LID_max,ceil", "ceiling of LID_max",
        "The most that one trial utterance can disclose at this slope among so many candidates: LID_max is to be read against it.",
        SOURCE,
    ),
    "alid_attribute": field_of(
        AttributePart, "mean_attribute", "ALID_attr", "part of ALID that is an attribute",
        "The bits of ALID that say to which class of speakers the speaker belongs: the sex, where candidates of both stand beside "
        "one another, or another attribute. Rows name it. Its ceiling is what there is to say: the entropy of the classes.",
        DEFINED,
    ),
    "alid_attribute_chance": field_of(
        AttributePart, "chance_attribute", "ALID_attr,0", "part of ALID that is an attribute, at chance",
        "What that part is worth where any candidate may be the speaker; exact.", DEFINED, summary=False,
    ),
    "alid_within": field_of(
        AttributePart, "mean_within", "ALID_within", "part of ALID within the class",
        "The bits of ALID that say who of the same class speaks; with the part that is the attribute they add up to ALID.",
        DEFINED,
    ),
    "alid_within_chance": field_of(
        AttributePart, "chance_within", "ALID_within,0", "part of ALID within the class, at chance",
        "What that part is worth where any candidate may be the speaker; exact.", DEFINED, summary=False,
    ),
    "alid_stranger": field_of(
        Stranger, "mean", "ALID_stranger", "attribute of a stranger",
        "The information about an attribute of a speaker whom the attacker has not enrolled, at a slope that was learnt for this "
        "question. Rows name the attribute.", DEFINED, summary=False,
    ),
    "alid_stranger_chance": field_of(
        Stranger, "chance", "ALID_stranger,0", "attribute of a stranger, at chance",
        "What that is worth where any candidate may be the stranger; exact.", DEFINED, summary=False,
    ),
    "rank_llr": field_of(
        FirstRank, "rank_one", "LLR_1", "evidence of the first rank",
        "The log-likelihood ratio of “the most similar candidate is the speaker”, by Laplace's rule; the number of trials sets "
        "a ceiling, which is shown beside it. 0 means that the first rank says nothing.",
        "pipeline/metrics/README.md, section 14b", summary=False,
    ),
    "pi_link": Metric(
        "pi_link", "linkability among N' candidates",
        "How often the speaker stands first among N' enrolled speakers; chance is 1/N'. Rows name N'.",
        "fraction", "lower", (0.0, 1.0), "Vauquier et al. 2025", summary=False,
    ),
    "tpr_at_fpr": field_of(
        TprEvidence, "tpr", "TPR", "true-positive rate at a low false-positive rate",
        "The share of target trials that an attacker accepts who lets so few impostors pass; chance is that rate itself. Rows "
        "name it.", "arXiv 2509.18413", summary=False,
    ),
}  # fmt: skip


class MetricFamily(contracts.MetricFamily):
    """What each trial utterance discloses about who of N candidates speaks."""

    Settings = LidSettings
    reads = "trials"
    searches = True
    title = "Disclosure of one among N candidates"
    metrics = METRICS
    readings = ("dev", "loso", "published")
    figures = (
        FigureTable(
            "lid_ccdf",
            ("bit", "share", "chance", "ceiling"),
            "Local information disclosure",
            "pipeline.families.lid.curves:disclosures",
        ),
        FigureTable(
            "population",
            ("population", "value", "low", "high", "chance"),
            "Linkability by population",
            "pipeline.families.lid.curves:populations",
        ),
        FigureTable(
            "lengths",
            ("length", "measure", "value", "low", "high", "chance", "speakers"),
            "Longer conversations",
            "pipeline.families.lid.curves:lengths",
        ),
        FigureTable("lid_speakers", ("speaker", "alid")),
    )
    references = (
        "“Local information disclosure” of speaker identity, arXiv 2607.06259, 2026 (ALID, PDR, LID).",
        "Vauquier et al. 2025, with the release voice-anonymization-legal-eval 2.1.0 (linkability by population).",
    )

    @classmethod
    def development(cls, settings: LidSettings) -> Mapping[str, str]:
        """As the settings say."""
        return settings.development or {}

    @classmethod
    def measure(cls, settings: LidSettings, data: Trials) -> Measured:
        """LID at slopes from other speakers, with exact chance values; ranks; linkability by population; TPR at low FPR.

        Where candidates were not all tried there is one row that says so, and TPR at low FPR, which needs no more than a list.

        Raises:
            MetricError: scores that are not finite.
        """
        rates = alarm_rows(settings, data)
        trials = replace(data.candidates, attributes=data.attributes) if data.candidates is not None else data
        try:
            matrices = build_search(trials)
        except NoMatrix as error:
            return Measured([row("alid", reason=str(error), counts=count_trials(trials)), *rates])
        template = RowTemplate(matrices.note, count_trials(trials))
        slopes = Slopes(settings, data.development)
        rows, tables = disclosure_rows(settings, matrices, slopes, template)
        for block in matrices.blocks:
            rows += attribute_rows(settings, block, trials.attributes, slopes, template)
            ranked, more = rank_rows(settings, block, slopes, template)
            rows += ranked
            # A figure is of one number of candidates.
            tables |= more if len(matrices.blocks) == 1 else {}
        return Measured([*rows, *rates], tables)
