"""What a component is, and the records that pass between rooms: a file a kind. Whoever writes a plug-in reads that file alone.

A component is a class. It derives from the base class of its kind, which says everything that such a component may have, each
with a default; what has no default is abstract. Its settings are a pydantic model named by ``Settings``. A module of ours
defines the class under the name of its base class, so ``name: ecapa`` among the extractors is
``pipeline.extractors.ecapa.Extractor``; another distribution names its class by an entry point::

    [project.entry-points."voice_privacy.extractors"]
    mine = "my_package.mine:Mine"

and adds an option file ``conf/extractor/mine.yaml`` that it gives with ``--config-dir``. ``voice-privacy check-plugin mine`` says
whether a component keeps its contract. The base class of executors is :class:`pipeline.engine.contracts.Executor`.

Conventions. A waveform is float32 [n] with full scale 1. A score is higher for more similar. A source file whose numbers change
raises its ``VERSION`` (at module level; in a plug-in an integer, or a name and a number as in ours: ``VERSION = "cosine 1"``):
all that stands on numbers of that file is computed anew, wherever the file lies. Modules of components import nothing heavy at module level, because settings are checked before torch is loaded.
"""

from pipeline.contracts.anonymiser import Anonymised, Anonymiser, Copies, Utterance
from pipeline.contracts.backend import Backend, Choice, Enrolment
from pipeline.contracts.component import Component, Download, Weights
from pipeline.contracts.extractor import (
    Comparison,
    Extractor,
    Feature,
    Preparation,
    Transcripts,
    Vectors,
    VectorSource,
    mean_of_units,
)
from pipeline.contracts.family import (
    FIGURE_IDENTITY,
    FigureTable,
    Measured,
    Metric,
    MetricFamily,
    Plot,
    RankInputs,
    Row,
    RowFigure,
)
from pipeline.contracts.fields import ComponentSettings, numeric, runtime
from pipeline.contracts.scores import Attribute, PairRuns, Pairs, ProtectedPairs, Ranks, Reads, TrialRuns, Trials
from pipeline.contracts.trainer import Pretrained, Trainer, Training, Waveforms

__all__ = [
    "FIGURE_IDENTITY", "Anonymised", "Anonymiser", "Attribute", "Backend", "Choice", "Comparison", "Component",
    "ComponentSettings", "Copies", "Download", "Enrolment", "Extractor", "Feature", "FigureTable", "Measured", "Metric",
    "MetricFamily", "PairRuns", "Pairs", "Plot", "Preparation", "Pretrained", "ProtectedPairs", "RankInputs", "Ranks",
    "Reads", "Row", "RowFigure", "Trainer", "Training", "Transcripts", "TrialRuns", "Trials", "Utterance",
    "VectorSource", "Vectors", "Waveforms", "Weights", "mean_of_units", "numeric", "runtime",
]  # fmt: skip
