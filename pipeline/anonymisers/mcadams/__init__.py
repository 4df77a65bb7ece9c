"""McAdams anonymisation: baseline B2 of the VoicePrivacy Challenges, its randomised form B2r, and their editions.

The transform itself is :mod:`pipeline.anonymisers.mcadams.transform`. What the modes add to it:

``default``
    Covers the whole file, leaves digital silence silent, gives float samples that nothing clips, and one gain per
    file that restores the RMS of the original. The transform itself changes the level by 5 dB (3 dB standard deviation over
    files) at alpha 0.8 and by 41 dB (7 dB) at 0.5, measured on 429 files of LibriSpeech, since poles move away from the
    strong low partials that made them; with the RMS kept, peaks reach 2.9.
``vpc2020``, ``vpc2022``, ``vpc2024``
    As the challenges' code: eps added, the first frame skipped (2020, 2022), angles clipped (2020, 2022), the tail after
    the last whole frame left zero, the peak brought to full scale, 16 bits (2020 rounded; 2022 and 2024 times 32766,
    truncated).

In all modes what cannot be processed passes through and is counted: files shorter than a window, frames below
-100 dBFS, frames whose new filter is not stable. Passed frames share the gain of their file.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import model_validator

from pipeline import contracts
from pipeline.contracts import Anonymised, ComponentSettings, Utterance, numeric
from pipeline.seeds import generator

if TYPE_CHECKING:
    import torch

    from pipeline.anonymisers.mcadams.on_device import Transform
    from pipeline.anonymisers.mcadams.transform import Framing

VERSION = "mcadams 1"
SHORT = {"frames": 0, "near_silent": 0, "unstable": 0}


class McAdamsSettings(ComponentSettings):
    """Settings of the McAdams anonymiser.

    Attributes:
        mode: see the module.
        level: who has a pseudo-voice of their own: nobody ('fixed'), each speaker, or each utterance.
        alpha: the coefficient at level 'fixed' (0.8 unless given).
        alpha_range: lower and upper end of the uniform distribution at the other levels.
        alpha_seeding: 'by_id' draws from (seed, set, id); 'vpc2024' as that challenge does: from the speaker's id
            alone, or, at level 'utterance', the n-th number of one sequence for the n-th line of every wav.scp.
        share_pseudo: leaves the set out of 'by_id' seeding, so that enrolment and trials share their pseudo-voices.
        seed: of 'by_id' seeding.
        window_ms, hop_ms: frames.
        order: of linear prediction.
    """

    name: Literal["mcadams"] = numeric("mcadams")
    mode: Literal["default", "vpc2020", "vpc2022", "vpc2024"] = numeric("default")
    level: Literal["fixed", "speaker", "utterance"] = numeric("fixed")
    alpha: float | None = numeric(None, gt=0, le=1.5)
    alpha_range: tuple[float, float] | None = numeric(None)
    alpha_seeding: Literal["by_id", "vpc2024"] = numeric("by_id")
    share_pseudo: bool = numeric(False)
    seed: int = numeric(0, ge=0)
    window_ms: float = numeric(20.0, gt=0)
    hop_ms: float = numeric(10.0, gt=0)
    order: int = numeric(20, ge=2, le=60)

    @model_validator(mode="before")
    @classmethod
    def _usual_alpha(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("level", "fixed") == "fixed" and values.get("alpha") is None:
            return {**values, "alpha": 0.8}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> McAdamsSettings:
        if self.level == "fixed" and self.alpha_range is not None:
            raise ValueError("alpha_range needs level 'speaker' or 'utterance'; level 'fixed' takes alpha")
        if self.level != "fixed":
            if self.alpha is not None:
                raise ValueError(f"level '{self.level}' draws alpha from alpha_range; alpha needs level 'fixed'")
            if self.alpha_range is None:
                raise ValueError(f"level '{self.level}' needs alpha_range, for instance [0.5, 0.9]")
            low, high = self.alpha_range
            if not 0 < low <= high <= 1.5:
                raise ValueError("alpha_range is [low, high] with 0 < low <= high <= 1.5")
        if self.hop_ms > self.window_ms / 2:
            raise ValueError("hop_ms is at most half of window_ms")
        return self


class Anonymiser(contracts.Anonymiser):
    """McAdams' transform with the alpha of the utterance."""

    Settings = McAdamsSettings
    libraries = ("numpy", "numba")
    on_device = True
    settings: McAdamsSettings

    @classmethod
    def level(cls, settings: McAdamsSettings) -> str:
        return settings.level

    @classmethod
    def shown_level(cls, settings: McAdamsSettings) -> str:
        """'fixed, shared', 'speaker', 'speaker, shared', 'utterance' and so on: shared by enrolment and trials."""
        if settings.level == "fixed":
            return "fixed, shared"
        if settings.alpha_seeding == "vpc2024":
            return "speaker, shared" if settings.level == "speaker" else "utterance, shared by position"
        return f"{settings.level}, shared" if settings.share_pseudo else settings.level

    @classmethod
    def reads(cls, settings: McAdamsSettings) -> tuple[str, ...]:
        """The position where alpha depends on it."""
        by_position = settings.level == "utterance" and settings.alpha_seeding == "vpc2024"
        return ("position",) if by_position else ()

    @classmethod
    def rerun(cls, settings: McAdamsSettings, number: int) -> McAdamsSettings | None:
        """Another seed; None where nothing is random, or the challenge fixes it."""
        if settings.level == "fixed" or settings.alpha_seeding == "vpc2024":
            return None
        return settings.model_copy(update={"seed": settings.seed + number})

    @classmethod
    def at_level(cls, settings: McAdamsSettings, level: str) -> McAdamsSettings | None:
        """None for one alpha for everybody."""
        return None if settings.level == "fixed" else settings.model_copy(update={"level": level})

    def alpha(self, utterance: Utterance) -> float:
        """McAdams' coefficient of an utterance."""
        chosen = self.settings
        if chosen.level == "fixed":
            assert chosen.alpha is not None
            return chosen.alpha
        assert chosen.alpha_range is not None
        if chosen.alpha_seeding == "vpc2024":
            random = _challenge_generator(utterance.speaker if chosen.level == "speaker" else "VPC2024")
            if chosen.level == "utterance":
                # one draw is one step of the bit generator
                bits = random.bit_generator
                assert isinstance(bits, np.random.PCG64)
                bits.advance(utterance.position)
        else:
            whose = utterance.speaker if chosen.level == "speaker" else utterance.id
            sets = () if chosen.share_pseudo else (utterance.set,)
            random = generator(chosen.seed, f"mcadams alpha, {chosen.level}", *sets, whose)
        return float(random.uniform(*chosen.alpha_range))

    def anonymise(self, wave: np.ndarray, rate: int, utterance: Utterance) -> Anonymised:
        """A waveform of the same length, made on the CPU; ``parameters`` holds alpha and the gain applied, and ``passed`` counts frames,
        near_silent, unstable and short (the whole file)."""
        from pipeline.anonymisers.mcadams.transform import transform

        framing, alpha = self._framing(rate), self.alpha(utterance)
        if len(wave) < self._shortest(framing):
            return self._passed(wave, rate, alpha, SHORT)
        transformed, counts = transform(wave, alpha, framing)
        if _unchanged(counts):
            return self._passed(wave, rate, alpha, counts)
        gain = self._gain(wave, transformed, _energy)
        self._quantise(transformed, gain, np)
        return self._anonymised(transformed.astype(np.float32), rate, alpha, gain, counts)

    def anonymise_many(self, waves: Sequence[tuple[np.ndarray, int, Utterance]]) -> list[Anonymised]:
        """Anonymise waveforms, each with its rate and utterance; on a GPU all at once.

        Returns:
            What :meth:`anonymise` makes of each, in order. A GPU adds in another order: before they are rounded to 16
            bits, samples differ by less than 1e-6.
        """
        if self.device == "cpu":
            return [self.anonymise(*spoken) for spoken in waves]
        return self._together(waves)

    def _together(self, waves: Sequence[tuple[np.ndarray, int, Utterance]]) -> list[Anonymised]:
        import torch

        alphas = [self.alpha(utterance) for _, _, utterance in waves]
        results_by_place: dict[int, Anonymised] = {}
        groups: dict[int, list[int]] = {}
        for place, (wave, rate, _) in enumerate(waves):
            if len(wave) < self._shortest(self._framing(rate)):
                results_by_place[place] = self._passed(wave, rate, alphas[place], SHORT)
            else:
                groups.setdefault(rate, []).append(place)
        with torch.inference_mode():
            for rate, places in groups.items():
                sources = [torch.from_numpy(np.ascontiguousarray(waves[place][0])).to(self.device) for place in places]
                results = _transform(self.device)(sources, [alphas[place] for place in places], self._framing(rate))
                for place, source, (result, counts) in zip(places, sources, results):
                    if _unchanged(counts):
                        results_by_place[place] = self._passed(waves[place][0], rate, alphas[place], counts)
                        continue
                    gain = self._gain(source, result, _energy_there)
                    self._quantise(result, gain, torch)
                    results_by_place[place] = self._anonymised(
                        result.float().cpu().numpy(), rate, alphas[place], gain, counts
                    )
        return [results_by_place[place] for place in range(len(waves))]

    def _framing(self, rate: int) -> Framing:
        from pipeline.anonymisers.mcadams.transform import EPS, Framing

        chosen = self.settings
        challenge = chosen.mode != "default"
        return Framing(
            window=int(chosen.window_ms * rate / 1000),
            hop=int(chosen.hop_ms * rate / 1000),
            order=chosen.order,
            eps=EPS if challenge else 0.0,
            edges=not challenge,
            first=1 if chosen.mode in ("vpc2020", "vpc2022") else 0,
            clip=chosen.mode != "vpc2024",
        )

    def _shortest(self, framing: Framing) -> float:
        """Samples that a waveform has at least, else it passes as it is; infinite where a window is too short itself."""
        return framing.window + framing.first * framing.hop if framing.window > framing.order + 1 else np.inf

    def _gain(self, wave: Any, transformed: Any, energy: Callable[[Any], float]) -> float:
        if self.settings.mode == "default":
            return float(np.sqrt(energy(wave) / energy(transformed)))
        return 1.0 / max(float(transformed.max()), -float(transformed.min()))

    def _quantise(self, samples: Any, gain: float, xp: Any) -> None:
        """Level and quantisation of the mode, in place; ``xp`` is numpy or torch, whichever ``made`` is of."""
        samples *= gain
        if self.settings.mode == "default":
            return
        if self.settings.mode == "vpc2020":
            samples *= 32768.0
            xp.clip(xp.round(samples, out=samples), -32768, 32767, out=samples)
        else:
            samples *= 32766.0
            xp.trunc(samples, out=samples)
        samples /= 32768.0

    def _passed(self, wave: np.ndarray, rate: int, alpha: float, counts: dict[str, int]) -> Anonymised:
        """The waveform as it was; 16 bits take it to their nearest steps."""
        wave = np.array(wave, np.float32)
        if self.settings.mode != "default":
            np.clip(np.rint(np.multiply(wave, 32768, out=wave), out=wave), -32768, 32767, out=wave)
            wave /= 32768
        return self._anonymised(wave, rate, alpha, 1.0, counts)

    def _anonymised(self, wave: np.ndarray, rate: int, alpha: float, gain: float, counts: dict[str, int]) -> Anonymised:
        subtype: Literal["FLOAT", "PCM_16"] = "FLOAT" if self.settings.mode == "default" else "PCM_16"
        return Anonymised(
            wave, rate, subtype, {"alpha": alpha, "gain": gain}, counts | {"short": int(not counts["frames"])}
        )


@functools.cache
def _transform(device: str) -> Transform:
    """One for all that uses the device, so that a block that was halved stays so."""
    from pipeline.anonymisers.mcadams.on_device import Transform

    return Transform()


def _unchanged(counts: dict[str, int]) -> bool:
    return counts["frames"] == counts["near_silent"] + counts["unstable"]


def _energy_there(wave: torch.Tensor) -> float:
    """Of a waveform on a device."""
    import torch

    return float(torch.linalg.vector_norm(wave, dtype=torch.float64)) ** 2


def _energy(wave: np.ndarray) -> float:
    # block by block, so that hours of float32 audio are not copied to float64 at once
    return sum(float(np.sum(np.square(wave[at : at + 65536], dtype=np.float64))) for at in range(0, len(wave), 65536))


def _challenge_generator(text: str) -> np.random.Generator:
    """VPC 2024: numpy's default generator from the first 8 hexadecimal digits of sha256."""
    return np.random.default_rng(int(hashlib.sha256(text.encode()).hexdigest()[:8], 16))
