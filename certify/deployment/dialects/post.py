"""How a dialect asks the deployment something beside chat completions."""

from typing import Protocol

from certify.records import Json


class Post(Protocol):
    """Posts a JSON body to a path; the JSON answer, None for anything but HTTP 200 with JSON."""

    def __call__(self, path: str, body: dict[str, Json], /) -> Json:
        """The answer."""
        ...
