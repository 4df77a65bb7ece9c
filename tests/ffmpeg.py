"""As much of the command ffmpeg as messages name, by its own libraries: [-ignore_length 1] -i IN [-af FILTER] -f flac OUT."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import av


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-ignore_length")
    parser.add_argument("-i", required=True)
    parser.add_argument("-af", default="anull")
    parser.add_argument("-f", choices=["flac"], required=True)
    parser.add_argument("out")
    asked = parser.parse_args(arguments)
    options = {"ignore_length": asked.ignore_length} if asked.ignore_length else {}
    with av.open(asked.i, options=options) as source, av.open(asked.out, "w", format=asked.f) as made:
        stream, written, graph = source.streams.audio[0], None, av.filter.Graph()
        name, _, values = asked.af.partition("=")
        chain = [graph.add_abuffer(template=stream), graph.add(name, values or None), graph.add("abuffersink")]
        graph.link_nodes(*chain).configure()
        for frame in [*source.decode(stream), None]:
            graph.push(frame)
            while True:
                try:
                    ready = graph.pull()
                except (av.BlockingIOError, av.EOFError):
                    break
                if written is None:
                    written = made.add_stream("flac", rate=ready.sample_rate)
                    written.layout = ready.layout
                    resampler = av.AudioResampler(
                        written.codec_context.format or "s16", ready.layout, ready.sample_rate
                    )
                ready.pts = None
                for part in resampler.resample(ready):
                    made.mux(written.encode(part))
        assert written is not None
        made.mux(written.encode(None))
    assert Path(asked.out).stat().st_size


if __name__ == "__main__":
    main(sys.argv[1:])
