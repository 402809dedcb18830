"""The command line. Modules are loaded by the command that needs them: `certify --help` answers at once."""

import argparse
import os
import sys
from pathlib import Path

from certify import __version__

USAGE = 4  # pytest's own exit code for a usage error

_RUN_HELP = """certify run: certify a deployment

  certify run --base-url http://HOST:PORT [options]

The same as `pytest certify/ --base-url URL` in a checkout, but shut off from the pytest configuration, plug-ins,
conftest files and PYTEST_ADDOPTS of the folder it is called in. All options of the suite are pytest options:
"""


def main(argv: list[str] | None = None) -> int:
    """Run a command; returns the exit code (0 certified, 1 FAIL, 10 incomplete, 11 unreachable, 2-5 pytest's)."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["run"]:
        return _run(arguments[1:])
    parser = _parser()
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.command(parsed))
    except KeyboardInterrupt:
        print("certify: interrupted", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="certify", description="Certify a live LLM-serving deployment.")
    parser.add_argument("--version", action="version", version=f"certify {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    commands.add_parser("run", help="certify a deployment: certify run --base-url URL", add_help=False)

    demo = commands.add_parser("demo", help="certify an embedded deployment, here and now")
    demo.add_argument("--simulated", action="store_true", help="the simulated TP=2 pair instead of the real engine")
    demo.add_argument(
        "--reports", default="reports", metavar="DIR", help="where the report goes (default: %(default)s)"
    )
    demo.add_argument("--seed", default="", metavar="S", help="seed of all cases (default: fresh)")
    demo.set_defaults(command=_demo)

    verify = commands.add_parser("verify", help="check a report: seal, digests, and every verdict from its evidence")
    verify.add_argument("report", metavar="REPORT", help="report.html, or the folder of a run")
    verify.add_argument("--trust", default="", metavar="FILE", help="allowed_signers file with the keys you trust")
    verify.add_argument("--identity", default="", metavar="NAME", help="the signer must be this principal")
    verify.add_argument("--expect-commit", default="", metavar="SHA", help="the certificate must speak of this commit")
    verify.add_argument("--expect-model", default="", metavar="ID", help="the certificate must speak of this model")
    verify.add_argument("--max-age", default=None, type=int, metavar="DAYS", help="refuse an older certificate")
    verify.add_argument("--challenge", default="", metavar="NONCE", help="the nonce that you handed out before the run")
    verify.add_argument("--revoked", default="", metavar="FILE", help="keys that are no longer trusted, one a line")
    verify.add_argument(
        "--payload-only", action="store_true", help="the statement alone, when a page's bytes were changed in transit"
    )
    verify.set_defaults(command=_verify)

    keygen = commands.add_parser("keygen", help="make an Ed25519 signing key and its allowed_signers line")
    keygen.add_argument(
        "path", metavar="FILE", help="the private key to write; FILE.pub and FILE.allowed_signers go beside it"
    )
    keygen.add_argument("--name", required=True, metavar="NAME", help="the principal, such as you@example.org")
    keygen.set_defaults(command=_keygen)

    simulate = commands.add_parser("simulate", help="serve the simulated TP=2 pair")
    simulate.add_argument("--port", type=int, default=0, metavar="P", help="port on 127.0.0.1 (default: a free one)")
    simulate.add_argument(
        "--dialect", default="vllm", metavar="NAME", help="engine whose wire behaviour it has (default: %(default)s)"
    )
    simulate.add_argument(
        "--arm", default="spec-on", choices=("spec-on", "spec-off"), help="speculation (default: %(default)s)"
    )
    simulate.set_defaults(command=_simulate)

    requirements = commands.add_parser("requirements", help="list every requirement and what each profile asks of it")
    requirements.set_defaults(command=_requirements)
    return parser


def _run(arguments: list[str]) -> int:
    """`pytest` over the installed suite, shut off from the caller's surroundings (docs/CONTRACT.md says from what)."""
    if "--arm" in arguments or any(one.startswith("--arm=") for one in arguments):
        return _run_spec_off(arguments)
    import pytest  # noqa: PLC0415

    if arguments in (["--help"], ["-h"]):
        print(_RUN_HELP)
    for variable in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(variable, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    package = Path(__file__).resolve().parent
    plugins = ("certify.plugin", "pytest_metadata.plugin", "pytest_html.plugin", "xdist.plugin")
    own = ["-c", str(package / "run.toml"), "--rootdir", str(package), "--noconftest", "-q"]
    own += [part for plugin in plugins for part in ("-p", plugin)]
    return int(pytest.main([*own, *arguments, str(package)]))


def _run_spec_off(arguments: list[str]) -> int:
    from certify.spec_off import run_spec_off  # noqa: PLC0415

    return run_spec_off(arguments)


def _demo(parsed: argparse.Namespace) -> int:
    from certify.demo import run_demo  # noqa: PLC0415

    return run_demo(reports=Path(parsed.reports), seed=parsed.seed, simulated=parsed.simulated)


def _verify(parsed: argparse.Namespace) -> int:
    from certify.report.verify import verify  # noqa: PLC0415

    result = verify(
        Path(parsed.report),
        trust=Path(parsed.trust) if parsed.trust else None,
        identity=parsed.identity,
        expect_commit=parsed.expect_commit,
        expect_model=parsed.expect_model,
        max_age_days=parsed.max_age,
        challenge=parsed.challenge,
        revoked=Path(parsed.revoked) if parsed.revoked else None,
        payload_only=parsed.payload_only,
    )
    for step in result.steps:
        print(f"{'ok  ' if step.ok else 'FAIL'} {step.name}: {step.detail}")
    return result.exit_code


def _keygen(parsed: argparse.Namespace) -> int:
    from certify.report.seal import SealError, generate_key  # noqa: PLC0415

    try:
        allowed = generate_key(Path(parsed.path), parsed.name)
    except (SealError, OSError) as error:
        print(f"certify keygen: {error}", file=sys.stderr)
        return USAGE
    print(f"private key: {parsed.path} (keep it)\nallowed_signers line, for whoever shall trust it:\n{allowed}")
    return 0


def _simulate(parsed: argparse.Namespace) -> int:
    from certify.embedded.simulator.__main__ import serve  # noqa: PLC0415

    return int(serve(port=parsed.port, dialect=parsed.dialect, arm=parsed.arm))


def _requirements(_: argparse.Namespace) -> int:
    from certify.requirements import PROFILES, in_run_order  # noqa: PLC0415

    for requirement in in_run_order():
        levels = ", ".join(f"{name} {requirement.level(name)}" for name in PROFILES if name in requirement.levels)
        print(f"{requirement.id:<16} {requirement.title}\n{'':<16} {levels or 'reserved'}")
    return 0
