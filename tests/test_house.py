"""What the house promises of itself (pipeline/README.md): one room prints, one room knows Hydra, and an addition touches no other file."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pipeline import registry
from pipeline.cli import compose
from pipeline.registry import COMPONENT_KINDS, Kind

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path.relative_to(ROOT) for path in (ROOT / "pipeline").rglob("*.py"))
TREES = {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in SOURCES}
CLI = Path("pipeline/cli")
ENTRANCE = Path("pipeline/__main__.py")
ALIAS = ENTRANCE.with_name("_alias") / "__init__.py"
"""The process of the command line: it flushes the streams before it ends."""


@functools.cache
def imported(tree: ast.Module) -> tuple[str, ...]:
    return tuple(imports(tree))


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported, wherever in the file, also of names of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# Printing ------------------------------------------------------------------------------------------------------------

STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def prints(tree: ast.Module) -> Iterator[int]:
    """Lines that write on standard output or standard error, or get hold of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("print", "input"):
            yield node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            place = (node.value.id, node.attr)
            if (place[0] == "sys" and place[1] in STREAMS) or place in (
                ("os", "write"), ("builtins", "print"), ("logging", "StreamHandler"), ("logging", "basicConfig"),
            ):  # fmt: skip
                yield node.lineno
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if (node.module == "sys" and names & STREAMS) or (node.module == "builtins" and "print" in names):
                yield node.lineno
    named = {name for name in imports(tree) if name.split(".")[0] in ("rich", "getpass")}
    if any(not name.startswith(("rich.cells", "rich.text")) for name in named):
        yield 0


def writes_into_strings(tree: ast.Module) -> bool:
    """Whether each console of rich that is made writes into a string."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Console"]
    return all("file=io.StringIO()" in ast.unparse(call) for call in calls)


TABLE = Path("pipeline/report/table.py")


def test_only_the_command_line_prints() -> None:
    found = {str(path): lines for path, tree in TREES.items() if (lines := sorted(set(prints(tree))))}
    assert found.pop(str(ENTRANCE)) and found.pop(str(ALIAS))
    assert found.pop(str(TABLE)) == [0] and writes_into_strings(TREES[TABLE]), "it breaks lines by a console of rich"
    outside = {path: lines for path, lines in found.items() if CLI not in Path(path).parents}
    assert not outside, "print in pipeline/cli alone; elsewhere return what there is to say, or log it"
    assert len(found) >= 5, "the verbs print"


@pytest.mark.parametrize(
    "line",
    ["print('x')", "import sys\nsys.stderr.write('x')", "from sys import stdout", "f = print", "from rich.console import Console",
     "import logging\nlogging.StreamHandler()", "import os\nos.write(1, b'x')"],
)  # fmt: skip
def test_printing_is_found(line: str) -> None:
    assert list(prints(ast.parse(line)))


SENDS = "pipeline/engine/executors/slurm.py"
"""It knows submitit, and nothing of Hydra."""


# Hydra ---------------------------------------------------------------------------------------------------------------


def test_only_the_command_line_knows_hydra() -> None:
    knows = {
        str(path)
        for path, tree in TREES.items()
        if any(name.split(".")[0] in ("hydra", "omegaconf", "submitit") for name in imports(tree))
    }
    known = ("command_line", "compose", "option_files")
    assert knows == {str(CLI / f"{name}.py") for name in known} | {SENDS}


def test_nothing_below_reaches_up_to_the_command_line() -> None:
    """But for the two ways in."""
    reaches = {
        str(path)
        for path, tree in TREES.items()
        if CLI not in path.parents and any(f"{name}.".startswith("pipeline.cli.") for name in imports(tree))
    }
    assert reaches == {"pipeline/__init__.py", str(ENTRANCE)}


# What one addition touches -------------------------------------------------------------------------------------------

MESSAGE = "an example in a message; another component is no worse without it"
SCRIPTS = "what the scripts of a challenge scored with, as tables of its score files print it"
WORD = "the word has another meaning there"
MENTIONS: dict[tuple[Kind, str], dict[str, str]] = {
    ("extractors", "ecapa"): {
        "pipeline/datasets/scores/discovery.py": SCRIPTS,
        "pipeline/evaluation/evaluate.py": MESSAGE,
        "pipeline/evaluation/discovered_models.py": MESSAGE,
    },
    ("extractors", "xvector"): {
        "pipeline/datasets/scores/discovery.py": SCRIPTS,
        "pipeline/datasets/vpc/models.py": f"{WORD}: a file of Kaldi",
        "pipeline/evaluation/evaluate.py": MESSAGE,
        "pipeline/evaluation/discovered_models.py": MESSAGE,
        "pipeline/extractors/campplus/network.py": f"{WORD}: a part of 3D-Speaker's network, by its name there",
    },
    ("extractors", "phones"): {"pipeline/evaluation/evaluate.py": MESSAGE},
    ("extractors", "ge2e"): {"pipeline/cli/__init__.py": MESSAGE, "pipeline/stages/training/plan.py": MESSAGE},
    ("extractors", "f0"): {
        "pipeline/cli/__init__.py": MESSAGE,
        "pipeline/cli/from_scores.py": f"{WORD}: f0 and f1 are two runs",
        "pipeline/families/cece/__init__.py": f"{WORD}: f0 and f1 are two runs",
        "pipeline/families/cece/profile.py": f"{WORD}: f0 and f1 are two runs",
        "pipeline/metrics/calibration.py": f"{WORD}: f0 and f1 are two runs",
    },
    ("extractors", "text"): {
        "pipeline/cli/help.py": f"{WORD}: the type of a field",
        "pipeline/datasets/kaldi_set.py": f"{WORD}: a table of Kaldi",
        "pipeline/report/render.py": f"{WORD}: not numbers",
        "pipeline/report/scorecard/output.py": f"{WORD}: not numbers",
        "pipeline/report/table.py": f"{WORD}: not numbers",
    },
    ("anonymisers", "external"): {
        "pipeline/evaluation/discovery.py": "a copy in a challenge's folder is such a system"
    },
    ("backends", "cosine"): {
        "pipeline/backends/_adaptation.py": MESSAGE,
        "pipeline/backends/plda/estimation.py": MESSAGE,
        "pipeline/backends/wccn.py": MESSAGE,
        "pipeline/datasets/scores/discovery.py": SCRIPTS,
        "pipeline/engine/code.py": "an example of how a version is written",
        "pipeline/datasets/scores/columns.py": f"{WORD}: a column of other people's score files",
        "pipeline/conformance.py": f"{WORD}: how vectors are compared",
        "pipeline/contracts/extractor.py": f"{WORD}: how an extractor's vectors are ranked",
        "pipeline/products/checks/words.py": f"{WORD}: a similarity",
        "pipeline/metrics/treatment.py": f"{WORD}: a similarity",
        "pipeline/stages/scores/compute.py": f"{WORD}: how an extractor's vectors are ranked",
        "pipeline/trainers/embedding/__init__.py": f"{WORD}: a schedule of learning rates",
        "pipeline/trainers/embedding/learner.py": f"{WORD}: a schedule of learning rates",
    },
    ("anonymisers", "command"): {
        "pipeline/cli/compose.py": "a program that only one's own command line may name",
        "pipeline/extractors/precomputed/files.py": f"{WORD}: an entry of a list that is none",
    },
    ("families", "cece"): {
        "pipeline/cli/__init__.py": "a verb over score files, which needs no component",
        "pipeline/cli/from_scores.py": "a verb over score files, which needs no component",
    },
    ("families", "p0p1"): {
        "pipeline/products/pairs.py": f"{WORD}: pairs between two runs",
        "pipeline/stages/scores/measure.py": f"{WORD}: pairs between two runs",
    },
    ("families", "srd"): {
        "pipeline/cli/__init__.py": "a verb over score files, which needs no component",
        "pipeline/cli/from_scores.py": "a verb over score files, which needs no component",
        "pipeline/extractors/f0/__init__.py": f"{WORD}: a mode of pYIN, that of the paper on SRD",
        "pipeline/nets/pyin.py": f"{WORD}: a mode of pYIN, that of the paper on SRD",
        "pipeline/extractors/prosody.py": f"{WORD}: a mode of pYIN, that of the paper on SRD",
        "pipeline/protocol/halves.py": MESSAGE,
    },
    ("families", "vsm"): {
        "pipeline/cli/__init__.py": "a verb over score files, which needs no component",
        "pipeline/cli/from_scores.py": "a verb over score files, which needs no component",
        "pipeline/evaluation/result.py": "matrix(...).plot() draws with the family that computes matrices",
    },
    ("families", "lid"): {
        "pipeline/cli/score_disclosure.py": "a verb over score files, which needs no component",
    },
    ("trainers", "finetune"): {
        "pipeline/nets/trainable.py": "what adapts an extractor with weights where the configuration names another trainer",
    },
    ("backends", "plda"): {
        "pipeline/datasets/scores/discovery.py": SCRIPTS,
        "pipeline/datasets/vpc/layout.py": f"{WORD}: a file of Kaldi",
        "pipeline/datasets/vpc/models.py": f"{WORD}: a file of Kaldi",
        "pipeline/evaluation/discovered_models.py": MESSAGE,
    },
    ("executors", "local"): {
        "pipeline/datasets/vpc/layout.py": f"{WORD}: a folder of Kaldi's recipes",
        "pipeline/extractors/campplus/packed.py": f"{WORD}: a part of 3D-Speaker's network, by its name there",
        "pipeline/evaluation/validate.py": "where the configuration names none",
    },
    ("executors", "processes"): {"pipeline/cli/status.py": f"{WORD}: a key of what --json prints"},
    ("executors", "slurm"): {
        "pipeline/cli/command_line.py": "what is said of launchers, which this replaces",
        "pipeline/cli/doctor.py": "whether jobs could be sent from here",
    },
}
"""Files that mention a component by name and are neither its own nor its options, with the reason."""
ORDINARY = {"original", "external", "embedding", "local", "processes", "text", "command", "linkability"}
"""Ordinary words: they count where a text is nothing but the name, so that something could hang on it."""
NOT_MEANT = {
    "original": "what is not protected: a value of enrolment, trial and trained_on, and the label of that speech in every table"
}


def own(kind: Kind, name: str) -> tuple[Path, Path]:
    """The file and the folder of a component of ours; there is one of them."""
    place = Path(COMPONENT_KINDS[kind].package.replace(".", "/")) / name
    return place.with_suffix(".py"), place


def options(kind: Kind, name: str) -> set[Path]:
    """The option files that choose a component."""
    found = set()
    for path in (ROOT / "conf" / COMPONENT_KINDS[kind].group).glob("*.yaml"):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        if COMPONENT_KINDS[kind].is_multiple:
            ((_, values),) = values.items()
        if values["name"] == name:
            found.add(path.relative_to(ROOT))
    return found


@functools.cache
def texts(tree: ast.Module) -> tuple[str, ...]:
    """Texts of the code that are no docstrings."""
    return tuple(_texts(tree))


def _texts(tree: ast.Module) -> Iterator[str]:
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def mentions(kind: Kind, name: str) -> set[str]:
    """Files of the code and of the configuration that import a component, or name it, beside its own."""
    file, folder = own(kind, name)
    module = f"{COMPONENT_KINDS[kind].package}.{name}"
    word = re.compile(rf"(?<![\w.-]){name}(?![\w-])")
    found = set()
    for path, tree in TREES.items():
        if path == file or folder in path.parents:
            continue
        said = any(text == name if name in ORDINARY else word.search(text) for text in texts(tree))
        if any(f"{one}.".startswith(f"{module}.") for one in imported(tree)) or (said and name not in NOT_MEANT):
            found.add(str(path))
    for path in sorted((ROOT / "conf").rglob("*.yaml")):
        here = path.relative_to(ROOT)
        said = "\n".join(line.split("#")[0] for line in path.read_text(encoding="utf-8").splitlines())
        if here not in options(kind, name) and name not in NOT_MEANT and word.search(said):
            found.add(str(here))
    return found


EVERY = [(kind, name) for kind in COMPONENT_KINDS for name in sorted(registry.list_own_names(kind))]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_component_is_its_own_file_or_folder_and_its_options(kind: Kind, name: str) -> None:
    file, folder = own(kind, name)
    assert (ROOT / file).is_file() != (ROOT / folder).is_dir()
    # A system of the user's has no option: people name it with its folder or its program on the command line.
    assert options(kind, name) or (kind, name) in (("anonymisers", "external"), ("anonymisers", "command"))


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_no_other_file_mentions_a_component(kind: Kind, name: str) -> None:
    """But for the defaults of the configuration, and what stands above with its reason."""
    found = mentions(kind, name) - {"conf/config.yaml"}
    assert found == set(MENTIONS.get((kind, name), {}))


def test_the_defaults_are_all_that_the_configuration_says_of_components() -> None:
    config = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text(encoding="utf-8"))
    defaults = [next(iter(entry)) for entry in config.pop("defaults") if isinstance(entry, dict)]
    assert {name for name in defaults if not name.startswith("override")} == set(compose.GROUPS)
    groups = {room.group for room in COMPONENT_KINDS.values()}
    assert not groups & set(config), "components stand in their option files"


ATTACKERS = sorted(path.stem for path in (ROOT / "conf" / "attacker").glob("*.yaml"))
# Beside examples in messages, findings speak of the strongest of the usual attackers unless they are told of another one,
# and folders of score files are those of the usual attackers.
SAID = {
    "ignorant": {"pipeline/stages/training/plan.py", "pipeline/datasets/scores/discovery.py"},
    "lazy_informed": {"pipeline/datasets/scores/discovery.py"},
    "semi_informed": {"pipeline/datasets/scores/discovery.py"},
    "recipe=demo": {"pipeline/cli/__init__.py"},
    "recipe=kaldi": {"pipeline/cli/__init__.py"},
}


@pytest.mark.parametrize("name", [*ATTACKERS, *(f"recipe={name}" for name in compose.list_recipes())])
def test_the_code_knows_no_attacker_and_no_recipe_by_name(name: str) -> None:
    word = re.compile(rf"(?<![\w.-]){name}(?![\w-])")
    found = {str(path) for path, tree in TREES.items() if any(word.search(text) for text in texts(tree))}
    assert found == SAID.get(name, set())


# Names, files and sizes ----------------------------------------------------------------------------------------------

VAGUE = {
    "of", "one", "said", "found", "made", "several", "whole", "known", "given", "named", "plain", "held", "asked", "lost", "ours", "theirs", "there", "it", "this",
}  # fmt: skip
"""Names of functions and classes that nobody can search for."""
VAGUE_IDENTIFIERS = {
    "one", "found", "made", "said", "held", "known", "several", "given", "asked", "whole", "there", "ours", "theirs",
}  # fmt: skip
"""The same of variables, parameters and attributes."""
STILL_VAGUE = 0
"""Functions and classes that have such a name yet: fewer each time, and none in the end."""
STILL_VAGUE_IDENTIFIERS = 23
AT_THE_ROOT = {
    ".ci", ".gitignore", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "conf", "data_manifests", "pipeline", "pyproject.toml",
    "recipes", "tests",
}  # fmt: skip
MOST_FILES, MOST_LINES = 348, 68400
LARGEST_FILE = 1_000_000


def definitions(tree: ast.Module) -> Iterator[str]:
    """Names of functions and classes at module level, without leading underscores."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name.lstrip("_")


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Names that something is given: variables, attributes that are assigned to, parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_names_can_be_searched_for() -> None:
    modules = [str(path) for path in SOURCES if path.stem.lstrip("_") in VAGUE]
    assert not modules
    vague = [f"{path}:{name}" for path, tree in TREES.items() for name in definitions(tree) if name in VAGUE]
    assert len(vague) <= STILL_VAGUE, vague
    count = sum(name in VAGUE_IDENTIFIERS for tree in TREES.values() for name in identifiers(tree))
    assert count <= STILL_VAGUE_IDENTIFIERS
    assert not [name for name in vague if name.startswith("pipeline/engine/")]


def test_the_house_grows_no_further() -> None:
    """Whoever adds looks for what goes: these only ever become smaller."""
    assert len(SOURCES) <= MOST_FILES
    assert (
        sum(path.read_text(encoding="utf-8").count("\n") for path in map(ROOT.__truediv__, map(str, SOURCES)))
        <= MOST_LINES
    )


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_large_file_and_no_stray_file_is_kept() -> None:
    files = tracked()
    assert not [str(path) for path in files if path.is_file() and path.stat().st_size > LARGEST_FILE]
    assert {path.relative_to(ROOT).parts[0] for path in files} <= AT_THE_ROOT
