"""The trainer of phone networks, under its name among the trainers."""

from pipeline.extractors.phones.training import VERSION as VERSION
from pipeline.extractors.phones.training import Settings as Settings
from pipeline.extractors.phones.training import train as train
