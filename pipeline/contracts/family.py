"""What a metric family is: scores to rows of results and tables for figures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pipeline.contracts.component import Component
from pipeline.contracts.scores import ProtectedPairs, Reads

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Between which numbers a value lies; NaN where that is not known.

    Attributes:
        low, high: 95 % interval, over speakers.
        null_low, null_high: null band, the middle 95 % of what a system shows that gives nothing away.
        ceiling: the largest value that so much data can show.
    """

    low: float = float("nan")
    high: float = float("nan")
    null_low: float = float("nan")
    null_high: float = float("nan")
    ceiling: float = float("nan")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a value stands on.

    Attributes:
        n_expected: units (trials, utterances, inputs) that there should be.
        n_used: units that there are.
    """

    n_expected: int | None = None
    n_used: int | None = None
    n_speakers: int | None = None
    n_target: int | None = None
    n_nontarget: int | None = None


@dataclass(frozen=True)
class Row(Counts, Bounds):
    """One number or label of a family. Its unit and direction stand in the family's :class:`Metric`; what it is about is added
    where results are gathered.

    Attributes:
        metric: its name, a key of :attr:`MetricFamily.metrics`.
        value: NaN where there is none: then there is a label, or the reason.
        variant: which of several definitions of the metric (``rocch`` of the EER); '' where there is one.
        estimator: how it is estimated, where there are several ways (``empirical``, ``beta_binomial``).
        input_unit: what one input is, where that can be chosen (``segment``, ``utterance``).
        label: a word instead of a number, or beside it.
        reason: why there is no value.
        note: what whoever reads the value has to know.
        condition: OO, OP or PP where the family knows better than its place in the plan.
    """

    metric: str
    value: float = float("nan")
    variant: str = ""
    estimator: str = ""
    input_unit: str = ""
    label: str = ""
    reason: str = ""
    note: str = ""
    condition: str = ""


@dataclass(frozen=True)
class Measured:
    """Rows for the results, and tables for the figures by name (``ece_profile``, ``similarity``, ``zoo``, ``ranks``, ...)."""

    rows: list[Row]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """What results, report, glossary and documents say of a metric.

    Attributes:
        symbol: its name as text, with ``_`` before a subscript.
        title: its long name.
        sentence: what it says, in a sentence for people.
        unit: ``fraction`` (shown in %), ``bit``, ``log10``, ``dB``, ``nat``, ``tag`` or ''.
        direction: ``higher`` or ``lower`` is more private; '' if it is no measure of privacy.
        bounds: the lowest and the highest value that it can take; infinite where there is no limit.
        source: where it is defined.
        summary: whether the compact tables show it; else it stands with the details.
        caution: what nobody may read the number without, in a sentence; it stands below each table that shows the metric.
    """

    symbol: str
    title: str
    sentence: str
    unit: str = ""
    direction: Literal["higher", "lower", ""] = ""
    bounds: tuple[float, float] = (float("-inf"), float("inf"))
    source: str = ""
    summary: bool = True
    caution: str = ""

    @property
    def private(self) -> str:
        """The direction as results say it: ``higher is more private``, ``lower is more private`` or ''."""
        return f"{self.direction} is more private" if self.direction else ""


FIGURE_IDENTITY = ("subset", "system", "condition", "attacker", "extractor", "backend")
"""What a table for a figure can be told apart by; these columns are added where results are gathered."""


@dataclass(frozen=True)
class Plot:
    """One figure: SVG text, alt text with its main numbers, caption in plain words, and the very data that it shows."""

    kind: str
    title: str
    caption: str
    alt: str
    svg: str
    data: pd.DataFrame


@dataclass(frozen=True)
class FigureTable:
    """A table that a family writes for a figure. A run without it has a report without the figure.

    Attributes:
        name: of the table in :attr:`Measured.tables`, and of ``figures/NAME.parquet``.
        columns: that it has beside its identity.
        section: heading in the report; what comes before a colon stands in the list of contents. Equal headings are one section.
        draw: ``module:function`` that draws it: takes the table, with a column ``series``, and the names of the series in order;
            gives a list of :class:`Plot`. A text, so that numbers do not depend on the code of plots. '' if
            nothing draws it.
        identity: what tells its parts apart: some of :data:`FIGURE_IDENTITY`, ``system`` among them.
    """

    name: str
    columns: tuple[str, ...]
    section: str = ""
    draw: str = ""
    identity: tuple[str, ...] = FIGURE_IDENTITY


@dataclass(frozen=True)
class RowFigure:
    """A figure that is drawn from the rows of results, without a table of its own.

    Attributes:
        section: heading in the report, as of :class:`FigureTable`.
        draw: ``module:function``, as of :class:`FigureTable`: takes all rows, with a column ``series``, in place of a table;
            gives no plot where the rows lack what it shows.
    """

    section: str
    draw: str


@dataclass(frozen=True)
class RankInputs:
    """What is ranked: how a family that reads :class:`Ranks` halves the speech of a speaker and what an input is.

    Attributes:
        seed: of the halving into reference and input.
        unit: an input is a uniform ``segment`` of the joined input half, or an ``utterance`` of it.
        seconds: length of a segment, about; None for 20 segments a speaker.
        apart: what the halves have not in common: an ``utterance``, or a ``chapter`` of a book.
        within: references are all speakers of a pool (``all``) or those of the input's ``sex``.
        pools: trial sets that are pooled, with their enrolment sets, by the name of the pool; None for all sets as one.
    """

    seed: int = 0
    unit: Literal["segment", "utterance"] = "segment"
    seconds: float | None = None
    apart: Literal["utterance", "chapter"] = "utterance"
    within: Literal["all", "sex"] = "all"
    pools: Mapping[str, Sequence[str]] | None = None


class MetricFamily(Component):
    """Some metrics that are computed together from one kind of scores.

    Attributes:
        reads: the kind: :class:`Trials`, :class:`TrialRuns`, :class:`Pairs`, :class:`PairRuns` or :class:`Ranks`.
        title: heading of its compact table; families with equal titles share one.
        metrics: its metrics by name, in the order of tables. A name means one metric, whichever family computes it.
        figures: tables that it writes for figures.
        row_figures: figures that need no more than rows.
        references: papers, for the report's list of sources.
        protected_metrics: of a family that reads :class:`Pairs`, the metrics that :meth:`measure_protected` gives; () for none.
        readings: variants and estimators by which it computes one number several times, the first to be read at the front; a
            report folds the others below it.
        searches: whether it reads :class:`Trials` and looks for the speaker among all candidates: then it is given the trials
            that the list lacks (``Trials.candidates``), and what is known of speakers (``Trials.attributes``).
    """

    reads: ClassVar[Reads]
    title: ClassVar[str]
    metrics: ClassVar[Mapping[str, Metric]]
    searches: ClassVar[bool] = False
    figures: ClassVar[tuple[FigureTable, ...]] = ()
    row_figures: ClassVar[tuple[RowFigure, ...]] = ()
    references: ClassVar[tuple[str, ...]] = ()
    protected_metrics: ClassVar[tuple[str, ...]] = ()
    readings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def inputs(cls, settings: Any) -> RankInputs:
        """What is ranked, where the family reads :class:`Ranks`."""
        return RankInputs()

    @classmethod
    def development(cls, settings: Any) -> Mapping[str, str]:
        """By trial set, the one of other speakers from which the family learns what it needs for it (``Trials.development``)."""
        return {}

    @classmethod
    def definition(cls, settings: Any) -> tuple[str, ...]:
        """By which definition its metrics are, in words that rows have in ``variant``: none where it is the usual one.

        Rows that :meth:`measure` itself names need none.
        """
        return ()

    @classmethod
    @abstractmethod
    def measure(cls, settings: Any, data: Any) -> Measured:
        """Rows and figure tables of scores.

        Raises:
            MetricError: a metric is not defined on these scores.
        """

    @classmethod
    def measure_protected(cls, settings: Any, data: ProtectedPairs) -> Measured:
        """Rows of the metrics :attr:`protected_metrics`, and figure tables, of protected speech alone; none where it names none. That the two
        agree is held by ``check-plugin``.

        Raises:
            MetricError: a metric is not defined on these scores.
        """
        return Measured([])

    @classmethod
    def record(cls, row: Row) -> dict[str, Any]:
        """A row as results have it: with the unit and the direction that the family declares of its metric."""
        declared = cls.metrics.get(row.metric)
        return {
            **asdict(row),
            "unit": declared.unit if declared else "",
            "direction": declared.private if declared else "",
        }
