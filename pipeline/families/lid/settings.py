"""Settings of the disclosure of one among N candidates."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.contracts import numeric
from pipeline.families._uncertainty import UncertaintySettings


class LidSettings(UncertaintySettings):
    """Settings of the disclosure of one among N candidates.

    Attributes:
        slope: of the posterior over candidates. ``softmax`` learns it from the trial set that ``development`` names, and where
            it names none as ``loso`` does: for each speaker from the trials of all the others. ``published`` is the logistic
            regression of arXiv 2607.06259, on that trial set too. A number must come from other speakers than those who are
            evaluated. Rows name it: ``dev``, ``loso``, ``published`` or the number.
        development: by trial set, another one of other speakers, under the same attack, to learn the slope from:
            ``{libri_test_trials_f: libri_dev_trials_f}``.
        ties: ranks and pi_link ``spread`` equal scores evenly, or take the ``best`` or ``worst`` place.
        lengths: numbers of trial utterances that are pooled, for the figure of longer conversations: of them, those that half
            of the speakers have, and three of them. The same speakers stand at each; () leaves the figure out.
        pooled: choices of utterances of a speaker at each length; where there are more, so many are drawn, and fewer where
            speakers and candidates are so many that 300,000 scores at a length would be passed, down to 10.
    """

    name: Literal["lid"] = numeric("lid")
    slope: Literal["softmax", "loso", "published"] | Annotated[float, Field(ge=0, allow_inf_nan=False)] = numeric(
        "softmax"
    )
    development: dict[str, str] | None = numeric(None)
    ties: Literal["spread", "best", "worst"] = numeric("spread")
    lengths: tuple[int, ...] = numeric((1, 2, 3, 5, 10))
    pooled: int = numeric(100, ge=1)

    @field_validator("lengths")
    @classmethod
    def _distinct(cls, chosen: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(chosen)) != len(chosen) or any(length < 1 for length in chosen):
            raise ValueError("lengths are 1 or more, each once")
        return tuple(sorted(chosen))

    @model_validator(mode="after")
    def _has_others(self) -> LidSettings:
        if self.slope == "published" and not self.development:
            raise ValueError(
                "slope=published is learnt from other speakers: development={SET: OTHER_SET} names them, or leave slope out"
            )
        if self.development and self.slope not in ("softmax", "published"):
            raise ValueError(
                f"development names speakers to learn from, and slope={self.slope} learns nothing from them"
            )
        return self
