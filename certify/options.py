"""What a run was asked to do: the options, read once, checked before anything is asked of a deployment."""

import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from certify import declaration, thresholds
from certify.declaration import Declaration
from certify.deployment.client import Deadlines
from certify.report.seal import KeyFile, SealError
from certify.requirements import PROFILES, REQUIREMENTS
from certify.thresholds import Thresholds

EMBEDDED_REAL = "embedded:real"
EMBEDDED_SIMULATED = "embedded:simulated"

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


class OptionError(ValueError):
    """An option that cannot be honoured: one line that says what to write instead."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of one run, resolved. `urls` are deployments under test, `resume` a folder to go on with."""

    urls: tuple[str, ...]
    profile: str
    thresholds: Thresholds
    declaration: Declaration
    seed: str
    challenge: str
    reports: Path
    model: str = ""
    api_key_env: str = ""
    deadlines: Deadlines = field(default_factory=Deadlines)
    budget_s: int | None = None
    only: tuple[str, ...] = ()
    keep_going: bool = False
    spec_off_url: str = ""
    spec_off_evidence: Path | None = None
    resume: Path | None = None
    sign_key: str = ""
    require_signature: bool = False
    identity: str = ""
    expect_commit: str = ""
    demo: bool = False
    diagnostic: tuple[str, ...] = field(default=())


def check_urls(urls: list[str]) -> tuple[str, ...]:
    """The deployments' URLs, each given once.

    Raises:
        OptionError: none, or one twice.
    """
    if not urls:
        raise OptionError(
            "no deployment: give --base-url http://HOST:PORT or embedded:real; `certify demo` brings one of its own"
        )
    if len(set(urls)) != len(urls):
        raise OptionError(f"--base-url {next(url for url in urls if urls.count(url) > 1)} is given twice")
    return tuple(urls)


def check_resumable(folder: Path) -> None:
    """Whether a folder holds a run that can be gone on with.

    Raises:
        OptionError: it holds no plan, with the folders below it that do.
    """
    if not (folder / "plan.json").is_file():
        lanes = sorted(str(plan.parent) for plan in folder.glob("lane*/plan.json"))
        instead = f"it holds one run a deployment; give one of {', '.join(lanes)}" if lanes else ""
        raise OptionError(
            f"--resume {folder}: no plan.json there; {instead or 'give the folder of an interrupted run'}"
        )


def duration_s(text: str, option: str = "budget") -> int:
    """Seconds in a duration such as `45m`, `1h30m`, `90s`.

    Raises:
        OptionError: it is none.
    """
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        name = option if option == "budget" else f"{option}-deadline"
        raise OptionError(f"--{name} {text!r}: expected a duration such as 45m, 1h30m or 90s")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def deadlines(first_token: str, silence: str) -> Deadlines:
    """The deadlines of `--first-token-deadline` and `--silence-deadline`.

    Raises:
        OptionError: one is no duration, or nothing.
    """
    given = {"first_token_s": first_token, "silence_s": silence}
    seconds = {name: float(duration_s(text, name.removesuffix("_s").replace("_", "-"))) for name, text in given.items()}
    if not all(seconds.values()):
        raise OptionError(
            "a deadline of no time lets nothing pass: give --first-token-deadline and --silence-deadline seconds"
        )
    return Deadlines(**seconds)


def profile_name(text: str) -> str:
    """A known profile.

    Raises:
        OptionError: an unknown one, with those that exist.
    """
    if text not in PROFILES:
        raise OptionError(f"--profile {text!r}: known profiles are {', '.join(PROFILES)}")
    return text


def only_ids(text: str) -> tuple[str, ...]:
    """The requirement ids of `--only ID[,ID]`.

    Raises:
        OptionError: an id that no gate carries.
    """
    ids = tuple(one.strip() for one in text.split(",") if one.strip())
    for one in ids:
        if one not in REQUIREMENTS:
            raise OptionError(f"--only {one}: no such requirement; `certify requirements` lists them")
        if not REQUIREMENTS[one].built:
            raise OptionError(f"--only {one}: reserved, its gate does not exist in this version")
    return ids


def threshold_set(text: str) -> Thresholds:
    """The thresholds of `--thresholds FILE|SET`.

    Raises:
        OptionError: they cannot be applied.
    """
    try:
        return thresholds.load(text)
    except thresholds.ThresholdError as error:
        raise OptionError(str(error)) from error


def declared(path: str) -> Declaration:
    """The declaration of `--deployment FILE`, an empty one without.

    Raises:
        OptionError: the file cannot be read.
    """
    try:
        return declaration.load(Path(path)) if path else Declaration()
    except declaration.DeclarationError as error:
        raise OptionError(str(error)) from error


def reports_folder(path: str) -> Path:
    """The folder of `--reports DIR`, made and writable.

    Raises:
        OptionError: it cannot be written to.
    """
    folder = Path(path).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".certify-{secrets.token_hex(4)}"
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise OptionError(f"--reports {path}: cannot write there ({error.strerror}); choose another folder") from error
    return folder


def api_key_variable(name: str) -> str:
    """The environment variable that holds the API key.

    Raises:
        OptionError: it is named and not set (its value is never shown).
    """
    if name and not os.environ.get(name):
        raise OptionError(
            f"--api-key-env {name}: the environment has no such variable; export it, or leave the option out"
        )
    return name


def signer(run: RunOptions) -> KeyFile | None:
    """The signer of `--sign-key URI`, tried once so that a key that cannot sign is known before the run, not after.

    Raises:
        OptionError: the key cannot be used, or none is given although a signature is required.
    """
    if not run.sign_key:
        if run.require_signature:
            raise OptionError("--require-signature: no key; give --sign-key ssh:PATH (`certify keygen` makes one)")
        return None
    scheme, _, path = run.sign_key.partition(":")
    if scheme != "ssh" or not path:
        raise OptionError(f"--sign-key {run.sign_key}: expected ssh:PATH of an Ed25519 private key")
    try:
        loaded = KeyFile.load(Path(path).expanduser(), run.identity)
        loaded.sign(b"trial signature")
    except SealError as error:
        raise OptionError(f"--sign-key {run.sign_key}: {error}") from error
    return loaded


def fresh_seed() -> str:
    """A seed nobody could know before the run: 64 random bits as hex."""
    return secrets.token_hex(8)
