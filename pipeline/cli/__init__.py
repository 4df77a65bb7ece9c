"""The command line: verbs, exit statuses, and errors said to people.

The first argument is looked at before anything heavy is imported, so that ``--help`` answers at once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from pipeline.cli import failures, output
from pipeline.errors import ConfigError, PipelineError
from pipeline.names import suggest_names
from pipeline.version import __version__

VERBS = {
    "run": "evaluate: prepare, anonymise, extract, train, score, measure, report (the default)",
    "prepare": "read and check the data set, print what it holds",
    "train": "train the extractors whose source is `trained`, print where the weights are",
    "status": "how far a run is, where, and what failed: status [RUN] [--follow] (see status --help)",
    "plan": "print what a run would reuse and compute, why, and how much time and room it takes: [--tasks]",
    "validate": "check the configuration, and the audio of external systems: [--html FILE] [--training]",
    "report": "report RUN...: one report of one or more finished runs",
    "compare": "compare RUN RUN: settings that differ, then differences; compare recipe=NAME [RUN]: its scorecard",
    "export": "export RUN... --format latex|markdown|csv|bibtex: the leaderboard, tables (see export --help)",
    "doctor": "whether this machine will do: versions, devices, disks, models, Slurm; each finding with its remedy",
    "fetch-models": "get the weights of the chosen extractors (the only verb that downloads)",
    "check-plugin": "check-plugin NAME: whether a component keeps its contract (see check-plugin --help)",
    "help": "help [TOPIC]: what there is to choose and to set: help, help system, help extractor.campplus",
    "store": "store ls|why|verify|gc: look after stored results (see store --help)",
    "from-scores": "metrics of score files alone: trials, vsm, srd, normalised, cece, paired (see from-scores --help)",
}

HELP = f"""usage: voice-privacy [VERB] [hydra flags] [overrides]      (or python -P -m pipeline)

verbs:
{chr(10).join(f"  {verb:13} {text}" for verb, text in VERBS.items())}

examples:
  voice-privacy recipe=demo
  voice-privacy recipe=kaldi dataset.root=DIR 'system=[original,b2,b2r]' 'extractor=[ge2e,f0]'
  voice-privacy recipe=kaldi dataset.root=DIR '+system.t8={{name: external, root: WAVS}}'
  voice-privacy -m recipe=kaldi dataset.root=DIR system=b2,b2r

groups: dataset train executor recipe (one each), system extractor attacker backend metric (lists)
hydra flags: --cfg job prints the composed configuration, -m sweeps, --config-dir DIR adds your own options
exit status: 0 done, 1 our bug, 2 usage or configuration, 3 data, 4 model missing, 5 a stage failed, 6 partial result
"""


MODULES = {
    "run": "evaluate", "prepare": "evaluate", "train": "evaluate", "fetch-models": "evaluate", "part": "evaluate",
    "plan": "plan", "validate": "validate", "doctor": "doctor", "report": "report", "compare": "report",
    "help": "help",
}  # fmt: skip
"""The module of this room that carries out a verb which reads overrides."""
OPTIONS_OF_THEIR_OWN = {
    "export": "export", "status": "status", "store": "store", "from-scores": "from_scores", "check-plugin": "check_plugin",
}  # fmt: skip
"""That of a verb which has its own options, and its own ``--help``."""


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line; the exit status."""
    output.take_any_text()
    try:
        return _dispatch(list(arguments))
    except PipelineError as error:
        failures.list_all_faults(error)
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 2
    except Exception as error:
        status, text = failures.describe_failure(error)
        if text:
            print(text, file=sys.stderr)
        return status


def _dispatch(arguments: list[str]) -> int:
    verb, *words = arguments or [""]
    if verb in OPTIONS_OF_THEIR_OWN:
        return int(importlib.import_module(f"pipeline.cli.{OPTIONS_OF_THEIR_OWN[verb]}").main(words))
    if any(argument in ("-h", "--help") for argument in arguments):
        print(HELP, end="")
        return 0
    if arguments == ["--version"]:
        print(__version__)
        return 0
    if not verb or verb.startswith("-") or "=" in verb:
        verb, words = "run", arguments
    if verb not in MODULES:
        raise ConfigError(f"there is no verb `{verb}`", remedy=suggest_names(verb, VERBS))
    return int(importlib.import_module(f"pipeline.cli.{MODULES[verb]}").main(verb, words))
