"""Whom a reader trusts: OpenSSH's allowed_signers file and a list of revoked keys, both text, both read offline."""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from certify.report.seal import fingerprint
from certify.report.statement import NAMESPACE

_FILE_CAP = 4 << 20
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
_OPTION = re.compile(r'([a-z-]+)(?:="([^"]*)")?(?:,|$)', re.IGNORECASE)
_TIME = re.compile(r"(\d{8})(\d{4})?(\d{2})?(Z?)")


class TrustError(ValueError):
    """A trust file that cannot be used: which line, and what to write instead."""


@dataclass(frozen=True, slots=True)
class AllowedSigner:
    """One line: who (patterns), with which key, for what, and when."""

    principals: str
    blob: bytes
    namespaces: tuple[str, ...]
    valid_after: datetime | None
    valid_before: datetime | None

    def refusal(self, *, namespace: str, identity: str, now: datetime) -> str:
        """Why this line does not vouch for a signature by its key, or ""."""
        if self.namespaces and not any(fnmatchcase(namespace, pattern) for pattern in self.namespaces):
            return f"the key of {self.principals} is not trusted for {namespace}"
        if self.valid_after is not None and now < self.valid_after:
            return f"the key of {self.principals} is not valid before {self.valid_after:%Y-%m-%d %H:%M}Z"
        if self.valid_before is not None and now > self.valid_before:
            return f"the key of {self.principals} was valid until {self.valid_before:%Y-%m-%d %H:%M}Z"
        if identity and not _matches(identity, self.principals):
            return f"the key belongs to {self.principals}, not to {identity}"
        return ""


@dataclass(frozen=True, slots=True)
class Trust:
    """The trusted keys and the revoked ones."""

    signers: tuple[AllowedSigner, ...]
    revoked: frozenset[str]

    def judge(self, blob: bytes, *, identity: str, now: datetime, namespace: str = NAMESPACE) -> tuple[bool, str]:
        """(whether the key is trusted, by whom or why not)."""
        if fingerprint(blob) in self.revoked:
            return False, f"the key {fingerprint(blob)} is revoked"
        lines = [line for line in self.signers if line.blob == blob]
        if not lines:
            return False, f"nobody in the trust file has the key {fingerprint(blob)}"
        refusals = [line.refusal(namespace=namespace, identity=identity, now=now) for line in lines]
        if all(refusals):
            return False, refusals[0]
        return True, identity or lines[refusals.index("")].principals


def load_trust(path: Path | None, revoked: Path | None = None) -> Trust:
    """The trust that an allowed_signers file and a file of revoked keys state; either may be missing.

    Raises:
        TrustError: unreadable, or a line that is not understood: never skipped in silence.
    """
    signers = parse_allowed_signers(_text(path), str(path)) if path is not None else ()
    withdrawn = parse_revoked(_text(revoked), str(revoked)) if revoked is not None else frozenset()
    return Trust(signers, withdrawn)


def parse_allowed_signers(text: str, where: str = "allowed_signers") -> tuple[AllowedSigner, ...]:
    """The lines of an allowed_signers file (ssh-keygen(1), ALLOWED SIGNERS).

    Raises:
        TrustError: the line, and what is wrong with it.
    """
    return tuple(
        _signer(line.strip(), f"{where} line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    )


def parse_revoked(text: str, where: str = "revoked keys") -> frozenset[str]:
    """The fingerprints of a file of revoked keys: public key lines, or `SHA256:…` fingerprints.

    Raises:
        TrustError: a line that is neither.
    """
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if words[0].startswith("SHA256:"):
            found.add(words[0])
            continue
        index = _key_index(words)
        if index is None:
            raise TrustError(f"{where} line {number}: a public key or SHA256:… expected (a KRL is not read)")
        found.add(fingerprint(_blob(words[index + 1], f"{where} line {number}")))
    return frozenset(found)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            raw = handle.read(_FILE_CAP + 1)
        if len(raw) > _FILE_CAP:
            raise TrustError(f"{path} is longer than {_FILE_CAP} bytes: not a trust file")
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise TrustError(f"cannot read the trust file {path}: {error}") from error


def _signer(line: str, place: str) -> AllowedSigner:
    words = _WORD.findall(line)
    index = _key_index(words)
    if index not in {1, 2}:
        raise TrustError(f"{place}: `PRINCIPAL [OPTIONS] ssh-ed25519 KEY` expected")
    options = _options(words[1], place) if index == 2 else {}  # noqa: PLR2004 - principals, options, key type
    return AllowedSigner(
        words[0].strip('"'),
        _blob(words[index + 1], place),
        tuple(filter(None, options.get("namespaces", "").split(","))),
        _instant(options.get("valid-after"), place),
        _instant(options.get("valid-before"), place),
    )


def _key_index(words: list[str]) -> int | None:
    kinds = ("ssh-", "ecdsa-", "sk-")
    return next((at for at, word in enumerate(words[:-1]) if word.startswith(kinds) and "=" not in word), None)


def _options(text: str, place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _OPTION.match(text, at)
        if match is None:
            raise TrustError(f"{place}: the options {text[:80]!r} are not understood")
        name = match[1].lower()
        if name == "cert-authority":
            raise TrustError(f"{place}: cert-authority is not supported yet; list the signers' own keys")
        if name not in {"namespaces", "valid-after", "valid-before"} or match[2] is None or name in found:
            raise TrustError(f"{place}: unknown or doubled option {name!r}")
        found[name] = match[2]
        at = match.end()
    return found


def _blob(text: str, place: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TrustError(f"{place}: the key is not base64: {error}") from error


def _instant(text: str | None, place: str) -> datetime | None:
    """A time of ssh-keygen: YYYYMMDD[HHMM[SS]][Z]; local time without the Z, as OpenSSH has it."""
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        naive = datetime.strptime(match[1] + (match[2] or "0000") + (match[3] or "00"), "%Y%m%d%H%M%S")  # noqa: DTZ007 - the zone comes next
    except ValueError as error:
        raise TrustError(f"{place}: the time {text[:40]!r} is not YYYYMMDD[HHMM[SS]][Z]") from error
    return naive.replace(tzinfo=UTC) if match[4] else naive.astimezone(UTC)


def _matches(identity: str, patterns: str) -> bool:
    """OpenSSH's pattern list: any match counts, and a match of a `!pattern` forbids."""
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    forbidden = any(_like(identity, pattern[1:]) for pattern in wanted if pattern.startswith("!"))
    return not forbidden and any(_like(identity, pattern) for pattern in wanted if not pattern.startswith("!"))


def _like(identity: str, pattern: str) -> bool:
    return fnmatchcase(identity, pattern.replace("[", "[[]"))
