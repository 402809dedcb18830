"""`certify demo`: certify an embedded deployment with a key that the demo makes for itself."""

import subprocess
import sys
from pathlib import Path

from certify.options import EMBEDDED_REAL, EMBEDDED_SIMULATED
from certify.report.seal import generate_key

IDENTITY = "demo"


def run_demo(*, reports: Path, seed: str, simulated: bool) -> int:
    """Certify the embedded pair; returns the exit code of the run.

    The key signs as `demo` and its allowed_signers lies beside the report: it proves the mechanism, not a person.
    """
    if not simulated:
        from certify.embedded.real import EmbeddedMissing, check_installed  # noqa: PLC0415 - an extra

        try:
            check_installed()
        except EmbeddedMissing as error:
            print(f"certify demo: {error}", file=sys.stderr)
            return 4
    reports.mkdir(parents=True, exist_ok=True)
    key = reports / "demo-key"
    if not key.exists():
        generate_key(key, IDENTITY)
    command = [
        *(sys.executable, "-m", "certify", "run", "--certify-demo"),
        *("--base-url", EMBEDDED_SIMULATED if simulated else EMBEDDED_REAL),
        *("--profile", "demo", "--thresholds", "demo"),
        *("--sign-key", f"ssh:{key}", "--signer-name", IDENTITY, "--reports", str(reports)),
        *(("--seed", seed) if seed else ()),
    ]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - our own interpreter and module
