"""The training form of ECAPA-TDNN against SpeechBrain's module: embeddings, gradients, running statistics."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

from pipeline.extractors.ecapa import training_network as ecapa_training
from pipeline.extractors.ecapa.training_network import Network

MELS, FILES, FRAMES = 20, 6, 37


def model(**arguments: Any) -> ECAPA_TDNN:
    torch.manual_seed(5)
    sizes: dict[str, Any] = {
        "lin_neurons": 24,
        "channels": [32, 32, 32, 32, 96],
        "attention_channels": 16,
        "se_channels": 16,
    }
    made = ECAPA_TDNN(MELS, **{**sizes, **arguments}).train()
    # As they come, all channels have the same scale and no shift, and a wrong one would not be seen.
    for name, parameter in made.named_parameters():
        if ".norm." in name:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return made


def batch(seed: int = 0) -> torch.Tensor:
    """Frames with a level of their own in each file, as those of speakers have."""
    torch.manual_seed(seed)
    return torch.randn(FILES, FRAMES, MELS) + 2 * torch.randn(FILES, 1, MELS)


def trained(module: torch.nn.Module, forward: Any, features: list[torch.Tensor]) -> tuple[Any, ...]:
    """Embeddings and gradients of the first step, and the state after a step for each batch; all in double precision."""
    torch.manual_seed(9)
    target = torch.randn(FILES, 24)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    first = None
    for frames in features:
        optimiser.zero_grad()
        made = forward(frames)
        ((made - target.to(made.dtype)) ** 2).mean().backward()
        if first is None:
            gradients = {name: value.grad.double() for name, value in module.named_parameters()}
            first = made.detach().double(), gradients
        optimiser.step()
    assert first is not None
    return *first, {name: value.double() for name, value in module.state_dict().items()}


def exact(module: ECAPA_TDNN, features: list[torch.Tensor]) -> tuple[Any, ...]:
    """What SpeechBrain's forward pass does in double precision."""
    double = copy.deepcopy(module).double()
    return trained(double, lambda frames: double(frames)[:, 0], [frames.double() for frames in features])


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


def joined(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([value.flatten() for value in tensors.values()])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"global_context": False},
        {"channels": [32, 48, 48, 96], "kernel_sizes": [5, 3, 5, 1], "dilations": [1, 2, 3, 1], "res2net_scale": 4},
        {"channels": [32, 32, 96], "kernel_sizes": [3, 7, 3], "dilations": [2, 1, 3]},
    ],
)
def test_it_computes_and_learns_what_speechbrains_module_does(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The widest layer in parts, the last of them smaller.
    monkeypatch.setattr(ecapa_training, "_WIDTH", 40)
    groups = [1] * len(arguments.get("channels", "12345"))
    module = model(**arguments, groups=groups)
    features = [batch(seed) for seed in range(3)]
    embeddings, gradients, state = exact(module, features)
    double = copy.deepcopy(module).double()
    found = trained(double, Network(double, torch.float64), [frames.double() for frames in features])
    # SpeechBrain divides by the frames of a file in float32 whatever the precision.
    assert apart(found[0], embeddings) < 1e-7
    largest = max(float(value.norm()) for value in gradients.values())
    assert found[1].keys() == gradients.keys()
    for name, value in gradients.items():
        assert float((found[1][name] - value).norm()) < 1e-6 * float(value.norm()) + 1e-7 * largest, name
    for name, value in state.items():
        assert torch.allclose(found[2][name], value, rtol=1e-6, atol=1e-7), name


def test_in_float32_it_is_as_close_to_the_truth_as_rounding_lets_it() -> None:
    module = model()
    features = [batch(seed) for seed in range(3)]
    embeddings, gradients, state = exact(module, features)
    found = trained(module, Network(module), features)
    assert apart(found[0], embeddings) < 1e-5
    assert apart(joined(found[1]), joined(gradients)) < 1e-5
    for name, value in state.items():
        if "running" in name or "tracked" in name:
            assert apart(found[2][name], value) < 1e-5, name


def test_in_bfloat16_it_is_no_further_from_the_truth_than_autocast() -> None:
    module = model()
    embeddings, gradients, state = exact(module, [batch()])
    narrow = copy.deepcopy(module)
    found = trained(narrow, Network(narrow, torch.bfloat16), [batch()])
    cast = copy.deepcopy(module)

    def autocast(frames: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return cast(frames)[:, 0].float()

    theirs = trained(cast, autocast, [batch()])
    assert all(value.dtype == torch.float32 for value in narrow.state_dict().values() if value.is_floating_point())
    assert apart(found[0], embeddings) < min(0.02, 1.2 * apart(theirs[0], embeddings))
    assert apart(joined(found[1]), joined(gradients)) < min(0.2, 1.2 * apart(joined(theirs[1]), joined(gradients)))
    statistics = [name for name in state if "running" in name]
    assert max(apart(found[2][name], state[name]) for name in statistics) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_steps_give_the_same_bits(dtype: torch.dtype) -> None:
    runs = []
    for _ in range(2):
        module = model()
        runs.append(trained(module, Network(module, dtype), [batch(0), batch(1)]))
    assert torch.equal(runs[0][0], runs[1][0])
    assert torch.equal(joined(runs[0][1]), joined(runs[1][1]))
    assert torch.equal(joined(runs[0][2]), joined(runs[1][2]))


def test_it_stays_in_its_precision_under_autocast() -> None:
    module = model()
    network = Network(module)
    plain = network(batch())
    with torch.autocast("cpu", torch.bfloat16):
        cast = network(batch())
    assert torch.equal(plain, cast)
    assert cast.dtype == torch.float32


def test_outside_of_training_it_takes_the_running_statistics_and_leaves_them() -> None:
    module = model()
    module(batch(1))
    module.eval()
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        assert apart(Network(module)(batch()).double(), module(batch())[:, 0].double()) < 1e-5
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_what_it_would_do_otherwise_is_refused() -> None:
    for arguments in ({"dropout": 0.1}, {"activation": torch.nn.LeakyReLU}, {"groups": [1, 1, 2, 1, 1]}):
        with pytest.raises(ValueError, match="not implemented"):
            Network(model(**arguments))
    network = Network(model())
    assert network(batch()[:, :5]).shape == (FILES, 24)
    with pytest.raises(ValueError, match="too few"):
        network(batch()[:, :4])


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 1e-4), (torch.bfloat16, 0.02)])
def test_a_gpu_computes_the_same(dtype: torch.dtype, far: float) -> None:
    module = model()
    embeddings, gradients, _ = exact(module, [batch()])
    there = copy.deepcopy(module).cuda()
    made = Network(there, dtype)(batch().cuda())
    torch.manual_seed(9)
    ((made - torch.randn(FILES, 24).cuda()) ** 2).mean().backward()
    found = {name: value.grad.double().cpu() for name, value in there.named_parameters()}
    assert apart(made.detach().double().cpu(), embeddings) < far
    assert apart(joined(found), joined(gradients)) < 10 * far
