"""`certify run --arm spec-off`: record the arm without speculation, for hardware that holds one launch at a time."""

import argparse
import secrets
import sys
from datetime import UTC, datetime

from certify import options as opt
from certify.controller import UNREACHABLE, record_spec_off
from certify.deployment.client import DeploymentError
from certify.options import OptionError, RunOptions
from certify.visible import visible

USAGE = 4


def run_spec_off(arguments: list[str]) -> int:
    """Write the evidence of the arm without speculation and say the next step; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        run = RunOptions(
            urls=opt.check_urls([parsed.base_url] if parsed.base_url else []),
            profile=opt.profile_name(parsed.profile),
            thresholds=opt.threshold_set("generic"),
            declaration=opt.declared(parsed.deployment),
            seed=parsed.seed or opt.fresh_seed(),
            challenge=parsed.challenge,
            reports=opt.reports_folder(parsed.reports),
            model=parsed.model,
            api_key_env=opt.api_key_variable(parsed.api_key_env),
        )
        folder = run.reports / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}-spec-off"
        folder.mkdir()
        path = record_spec_off(run, parsed.base_url, folder, _say)
    except OptionError as error:
        print(f"certify run --arm spec-off: {error}", file=sys.stderr)
        return USAGE
    except DeploymentError as error:
        print(f"certify run --arm spec-off: {visible(str(error), 1200)}", file=sys.stderr)
        return UNREACHABLE
    print(
        f"evidence of the arm without speculation: {path}\n"
        f"next: launch the deployment with speculation, then\n"
        f"  certify run --base-url {parsed.base_url} --profile {run.profile} --spec-off-evidence {path}"
    )
    return 0


def _say(line: str) -> None:
    print(f"  … {line}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="certify run --arm spec-off",
        description="Record the arm without speculation; the run of the other arm takes it by --spec-off-evidence.",
    )
    parser.add_argument("--arm", choices=("spec-off",), required=True, help="which arm this launch is")
    parser.add_argument("--base-url", default="", metavar="URL", help="the deployment, launched without speculation")
    parser.add_argument(
        "--profile", default="gate", metavar="NAME", help="the profile of the run to come (default: %(default)s)"
    )
    parser.add_argument("--deployment", default="", metavar="FILE", help="deployment.toml: what the owner declares")
    parser.add_argument("--model", default="", metavar="ID", help="the served model to ask")
    parser.add_argument("--api-key-env", default="", metavar="NAME", help="environment variable that holds the API key")
    parser.add_argument(
        "--seed", default="", metavar="S", help="seed of all cases (default: fresh; the other run takes it over)"
    )
    parser.add_argument("--challenge", default="", metavar="NONCE", help="a reviewer's nonce")
    parser.add_argument(
        "--reports", default="reports", metavar="DIR", help="where the evidence goes (default: %(default)s)"
    )
    return parser
