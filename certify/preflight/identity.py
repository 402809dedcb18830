"""Asks again, at the end, what was asked at the start: who answers."""

from certify.deployment.recorder import Recorder

START, END = "identity:", "identity-end:"


def collect_identity(recorder: Recorder) -> None:
    """Every page that identified the deployment at the start, once more; tiny chats are echoes, in every answer."""
    pages = (probe for probe in recorder.probes if probe.name.startswith(START) and probe.method == "GET")
    paths = dict.fromkeys(probe.path for probe in pages)
    recorder.progress("identity: asked again")
    for path in paths:
        recorder.probe(f"{END}{path}", path)
