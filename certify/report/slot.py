"""The two kinds of slot in a page: the certificate's, which the page's digest leaves out, and the evidence's.

A slot lies between two markers, each exactly once in the file, and holds nothing but canonical base64: nothing that a
browser would show or run fits in. The page's digest is the SHA-256 of its bytes with the certificate's slot emptied.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from certify.codec import CodecError, canonical, from_json, parse_json, to_json
from certify.report.statement import PAYLOAD_TYPE

HASH_RULE = "slot-blanked-v1"
OPEN = b'<script type="application/vnd.certify+base64" id="certify-signature">'
CLOSE = b"</script><!--certify-signature-end-->"
_EVIDENCE_MARK = b"<!--certify-evidence-"
_BASE64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}")


class SlotError(ValueError):
    """A page whose slots break the rules: which rule."""


@dataclass(frozen=True, slots=True)
class Seal:
    """One signature over the payload's exact bytes. `type` is `sshsig`, `armored` its text."""

    type: str
    armored: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """What the slot holds: the certificate's text and its seals."""

    payload: str
    payload_type: str
    seals: tuple[Seal, ...]


def evidence_markers(index: int) -> tuple[bytes, bytes]:
    """The markers of the n-th chain; its base64 is a link that saves the evidence, so that a reader needs no tool."""
    return (
        b'%b%d--><a download class=save href="data:application/gzip;base64,' % (_EVIDENCE_MARK, index),
        b'" id=certify-evidence-%d>' % index,
    )


def split(page: bytes, opening: bytes, closing: bytes, what: str) -> tuple[bytes, bytes, bytes]:
    """(before and with the opening marker, content, closing marker and after).

    Raises:
        SlotError: a marker is missing or doubled, or the slot holds something else than canonical base64.
    """
    if page.count(opening) != 1 or page.count(closing) != 1:
        raise SlotError(f"the slot of the {what} must occur exactly once")
    start, end = page.index(opening) + len(opening), page.index(closing)
    content = page[start:end]
    if end < start or not _BASE64.fullmatch(content):
        raise SlotError(f"the slot of the {what} holds something else than base64")
    return page[:start], content, page[end:]


def decode(content: bytes, what: str) -> bytes:
    """The bytes that a slot's base64 spells.

    Raises:
        SlotError: not base64, or spelled otherwise than our encoder does (bits hidden in the padding).
    """
    try:
        raw = base64.b64decode(content, validate=True)
    except binascii.Error as error:
        raise SlotError(f"the slot of the {what} holds broken base64: {error}") from error
    if base64.b64encode(raw) != content:
        raise SlotError(f"the slot of the {what} holds base64 with hidden bits")
    return raw


def page_sha256(page: bytes) -> str:
    """The digest of a page by the rule `slot-blanked-v1`.

    Raises:
        SlotError: the slot breaks the rules.
    """
    before, _, after = split(page, OPEN, CLOSE, "certificate")
    return hashlib.sha256(before + after).hexdigest()


def fill(page: bytes, sealed: Sealed) -> bytes:
    """The page with its certificate and seals in the slot.

    Raises:
        SlotError: the slot breaks the rules.
    """
    before, _, after = split(page, OPEN, CLOSE, "certificate")
    return before + base64.b64encode(canonical(to_json(sealed))) + after


def read(page: bytes, *, cap: int) -> Sealed:
    """What the slot of the certificate holds.

    Raises:
        SlotError: the slot is empty, too long, or holds anything but the one canonical form.
    """
    _, content, _ = split(page, OPEN, CLOSE, "certificate")
    if not content:
        raise SlotError("the certificate was taken out of the page")
    if len(content) > cap:
        raise SlotError(f"the slot of the certificate is longer than {cap} bytes")
    raw = decode(content, "certificate")
    try:
        value = parse_json(raw)
        if canonical(value) != raw:
            raise SlotError("the slot of the certificate is not canonical JSON")
        sealed = from_json(Sealed, value)
    except (CodecError, RecursionError) as error:
        raise SlotError(f"the slot of the certificate is not readable: {error}") from error
    if sealed.payload_type != PAYLOAD_TYPE:
        raise SlotError(f"payload type {sealed.payload_type[:80]!r}; expected {PAYLOAD_TYPE}")
    return sealed


def chains(page: bytes, count: int) -> tuple[bytes, ...]:
    """The gzip bytes of the embedded chains, in the order of the certificate.

    Raises:
        SlotError: another number of chains than `count`, or a slot that breaks the rules.
    """
    if page.count(_EVIDENCE_MARK) != count:
        raise SlotError(f"{page.count(_EVIDENCE_MARK)} chains of evidence in the page; the certificate names {count}")
    return tuple(
        decode(split(page, *evidence_markers(index), f"evidence {index}")[1], f"evidence {index}")
        for index in range(count)
    )
