"""Seals: Ed25519 signatures in OpenSSH's SSHSIG form, made and read without OpenSSH, and the keys that make them.

A seal is over the exact bytes of `certificate.json`, so that `ssh-keygen -Y verify` checks it without this suite.
Formats: PROTOCOL.sshsig of OpenSSH; RFC 8709 for the keys. Who is trusted: `trust.py`.
"""

import base64
import binascii
import hashlib
import os
import struct
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from certify.report.statement import NAMESPACE

KEY_TYPE = b"ssh-ed25519"
_MAGIC = b"SSHSIG"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_ARMOUR_CAP = 64 << 10
_HASHES = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}


class SealError(ValueError):
    """A key or a signature that cannot be used: which one, and what to do."""


class Signer(Protocol):
    """Whatever can seal: a key file here; an agent, a card or a service later."""

    @property
    def identity(self) -> str:
        """The principal under which a trust file lists the key."""

    @property
    def fingerprint(self) -> str:
        """`SHA256:…` of the public key, as OpenSSH prints it."""

    @property
    def public_line(self) -> str:
        """The public key as one line of OpenSSH, without a comment."""

    def sign(self, payload: bytes, namespace: str = NAMESPACE) -> str:
        """The armoured SSHSIG over `payload`."""


def fingerprint(blob: bytes) -> str:
    """`SHA256:…` of a public key blob, as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def public_blob(public: Ed25519PublicKey) -> bytes:
    """The wire form of a public key."""
    return _string(KEY_TYPE) + _string(public.public_bytes(Encoding.Raw, PublicFormat.Raw))


@dataclass(frozen=True, slots=True)
class KeyFile:
    """An Ed25519 key from a file (or made in memory), and the identity that it signs as."""

    identity: str
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def load(cls, path: Path, identity: str = "") -> Self:
        """The key of an OpenSSH private key file; the identity is the comment of its `.pub`, unless given.

        Raises:
            SealError: missing, not a private key, encrypted, or not Ed25519.
        """
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise SealError(
                f"cannot read the signing key {path}: {error.strerror or error}; `certify keygen {path}` makes one"
            ) from error
        try:
            private = load_ssh_private_key(raw, password=None)
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            if "password" in str(error).lower():
                raise SealError(
                    f"the signing key {path} is encrypted with a passphrase, which this version cannot ask for: "
                    "use a key of its own for certificates (`certify keygen PATH`)"
                ) from error
            raise SealError(
                f"{path} is not an OpenSSH private key that can be read ({error}); `certify keygen PATH` makes one"
            ) from error
        if not isinstance(private, Ed25519PrivateKey):
            raise SealError(f"{path} is no Ed25519 key; `certify keygen PATH` makes one")
        return cls(identity or _comment(path) or path.name, private)

    @classmethod
    def generate(cls, identity: str) -> Self:
        """A new key in memory."""
        return cls(identity, Ed25519PrivateKey.generate())

    @property
    def blob(self) -> bytes:
        """The wire form of the public key."""
        return public_blob(self._private.public_key())

    @property
    def fingerprint(self) -> str:
        """`SHA256:…` of the public key."""
        return fingerprint(self.blob)

    @property
    def public_line(self) -> str:
        """The public key as one line of OpenSSH, without a comment."""
        return f"{KEY_TYPE.decode()} {base64.b64encode(self.blob).decode()}"

    def private_bytes(self) -> bytes:
        """The unencrypted OpenSSH private key file."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())

    def sign(self, payload: bytes, namespace: str = NAMESPACE) -> str:
        """The armoured SSHSIG over `payload`; the same bytes each time (Ed25519 is deterministic)."""
        digest = hashlib.sha512(payload).digest()
        signature = self._private.sign(_to_be_signed(namespace.encode(), b"sha512", digest))
        return _armour(
            _MAGIC
            + struct.pack(">I", 1)
            + _string(self.blob)
            + _string(namespace.encode())
            + _string(b"")
            + _string(b"sha512")
            + _string(_string(KEY_TYPE) + _string(signature))
        )


def load_signer(path: Path, identity: str = "") -> Signer:
    """The signer of a key file (`KeyFile.load`)."""
    return KeyFile.load(path, identity)


def allowed_signers_line(signer: Signer) -> str:
    """The line that makes a reader trust this signer for certificates, and for nothing else."""
    return f'{signer.identity} namespaces="{NAMESPACE}" {signer.public_line}\n'


def generate_key(path: Path, identity: str) -> str:
    """A new key in `path` (mode 0600), its public half in `path.pub`, and its `path.allowed_signers` line, returned.

    Raises:
        SealError: either file exists (nothing is overwritten), cannot be written, or the identity has blanks.
    """
    if not identity or any(character.isspace() or character in '",' for character in identity):
        raise SealError(f"the identity {identity!r} must be one word, such as a mail address")
    key = KeyFile.generate(identity)
    line = allowed_signers_line(key)
    beside = ((".pub", f"{key.public_line} {identity}\n"), (".allowed_signers", line))
    files = [(path.with_name(path.name + suffix), text.encode(), 0o644) for suffix, text in beside]
    try:
        for taken, _, _ in files:
            if taken.exists():
                raise FileExistsError(taken)
        for target, raw, mode in ((path, key.private_bytes(), 0o600), *files):
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as handle:
                handle.write(raw)
    except FileExistsError as error:
        raise SealError(
            f"{path} (or what lies beside it) exists; a key is never overwritten: choose another path"
        ) from error
    except OSError as error:
        raise SealError(f"cannot write the key {path}: {error.strerror or error}") from error
    return line


@dataclass(frozen=True, slots=True)
class Signature:
    """A seal as read; `blob` is the public key inside it, which says nothing about trust."""

    blob: bytes
    namespace: str
    hash_name: bytes
    raw: bytes

    @property
    def fingerprint(self) -> str:
        """`SHA256:…` of the key that made it."""
        return fingerprint(self.blob)


def read_signature(armoured: str) -> Signature:
    """The parts of an armoured SSHSIG.

    Raises:
        SealError: not an SSHSIG, trailing bytes, or a key or hash that this version does not check.
    """
    parcel = _Parcel(_unarmour(armoured))
    if parcel.take(len(_MAGIC)) != _MAGIC or parcel.take(4) != struct.pack(">I", 1):
        raise SealError("not an SSH signature of version 1")
    blob, namespace, _reserved, hash_name, inner = (parcel.string() for _ in range(5))
    parcel.end()
    signature = _Parcel(inner)
    kind, raw = signature.string(), signature.string()
    signature.end()
    if kind != KEY_TYPE or read_key_blob(blob) is None:
        raise SealError(f"a signature of type {kind[:40]!r}: this version checks Ed25519 only")
    if hash_name not in _HASHES:
        raise SealError(f"a signature over an unknown hash {hash_name[:40]!r}")
    return Signature(blob, namespace.decode("utf-8", "backslashreplace"), hash_name, raw)


def check(signature: Signature, payload: bytes, namespace: str = NAMESPACE) -> None:
    """Return where the signature is by its own key over exactly `payload`, for `namespace`.

    Raises:
        SealError: another namespace, or the signature does not fit.
    """
    if signature.namespace != namespace:
        raise SealError(f"the signature is for {signature.namespace[:60]!r}, not for {namespace!r}")
    public = read_key_blob(signature.blob)
    if public is None:
        raise SealError("no Ed25519 key in the signature")
    digest = _HASHES[signature.hash_name](payload).digest()
    try:
        public.verify(signature.raw, _to_be_signed(namespace.encode(), signature.hash_name, digest))
    except InvalidSignature as error:
        raise SealError(f"the signature of {signature.fingerprint} does not fit the certificate") from error


def read_key_blob(blob: bytes) -> Ed25519PublicKey | None:
    """The Ed25519 key of a public key blob, or None where it is of another type or malformed."""
    try:
        parcel = _Parcel(blob)
        kind, raw = parcel.string(), parcel.string()
        parcel.end()
        return Ed25519PublicKey.from_public_bytes(raw) if kind == KEY_TYPE else None
    except ValueError:
        return None


class _Parcel:
    """Length-prefixed strings, one after the other."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def take(self, count: int) -> bytes:
        piece = self._raw[self._at : self._at + count]
        if len(piece) != count:
            raise SealError("the signature is cut short")
        self._at += count
        return piece

    def string(self) -> bytes:
        return self.take(struct.unpack(">I", self.take(4))[0])

    def end(self) -> None:
        if self._at != len(self._raw):
            raise SealError("bytes after the end of the signature")


def _string(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def _to_be_signed(namespace: bytes, hash_name: bytes, digest: bytes) -> bytes:
    return _MAGIC + _string(namespace) + _string(b"") + _string(hash_name) + _string(digest)


def _armour(blob: bytes) -> str:
    return "\n".join((_BEGIN, *textwrap.wrap(base64.b64encode(blob).decode(), 70), _END, ""))


def _unarmour(text: str) -> bytes:
    lines = text[:_ARMOUR_CAP].strip().splitlines()
    if len(lines) < 3 or lines[0] != _BEGIN or lines[-1] != _END:  # noqa: PLR2004 - first line, last line, and a body
        raise SealError("not an armoured SSH signature")
    try:
        return base64.b64decode("".join(line.strip() for line in lines[1:-1]), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SealError(f"the armour of the signature is broken: {error}") from error


def _comment(path: Path) -> str:
    """The comment of the public half beside a key: by custom, who owns it."""
    try:
        words = path.with_name(path.name + ".pub").read_text(encoding="utf-8").split(maxsplit=2)
    except (OSError, UnicodeDecodeError):
        return ""
    return words[2].split()[0] if len(words) > 2 else ""  # noqa: PLR2004 - type, key, comment
