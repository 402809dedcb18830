"""An API key that prints as stars and is blotted out of whatever a server echoes."""

import json
import os
from typing import NoReturn
from urllib.parse import quote

# Below this a key is a placeholder ("EMPTY", "x"); blotting it out would change ordinary answers.
SHORTEST_SECRET = 8


class Secret:
    """One secret text; "" is no secret."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Holds the value."""
        self._value = value

    @classmethod
    def from_environment(cls, name: str) -> "Secret | None":
        """The secret in an environment variable; None when the variable is not set or empty."""
        value = os.environ.get(name, "").strip()
        return cls(value) if value else None

    def __repr__(self) -> str:
        return "Secret(***)"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")

    def fits_a_header(self) -> bool:
        """Whether it is printable ASCII without blanks; anything else HTTP libraries would refuse, and quote."""
        return all("!" <= char <= "~" for char in self._value)

    def bearer(self) -> str:
        """The value of an Authorization header."""
        return f"Bearer {self._value}"

    def blot(self, raw: bytes) -> bytes:
        """The bytes with every occurrence of the secret (as it is, JSON-escaped, URL-quoted) as stars, length kept.

        The length is kept so that the sizes of the reads still speak of the same bytes.
        """
        if len(self._value) < SHORTEST_SECRET:
            return raw
        forms = (self._value, json.dumps(self._value)[1:-1], json.dumps(self._value).replace("/", r"\/")[1:-1])
        for form in dict.fromkeys((*forms, quote(self._value, safe=""))):
            shape = form.encode(errors="replace")
            raw = raw.replace(shape, b"*" * len(shape))
        return raw

    def blot_text(self, text: str) -> str:
        """The same for text."""
        return self.blot(text.encode(errors="replace")).decode(errors="replace")
