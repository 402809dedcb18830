"""The deployment's address, as people write it."""

import httpx

from certify.deployment.errors import DeploymentError


def normalised(base_url: str) -> str:
    """The address without a trailing `/v1` or slash.

    Raises:
        DeploymentError: not an http(s) URL, or one with credentials, a query or a fragment.
    """
    text = base_url.strip()
    if "://" not in text:
        raise DeploymentError(f"base URL {text[:200]!r} has no scheme: write http://{text[:200] or 'HOST:PORT'}")
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise DeploymentError(f"base URL {text[:200]!r} is not a URL: {error}") from None
    if url.userinfo:
        raise DeploymentError("the base URL holds credentials: take them out and name a variable with --api-key-env")
    if url.scheme not in ("http", "https") or not url.host:
        raise DeploymentError(f"base URL {text[:200]!r} is not an http:// or https:// address")
    if url.query or url.fragment:
        raise DeploymentError(f"base URL {text[:200]!r} has a query or a fragment: give the address alone")
    path = url.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return str(url.copy_with(path=path or "/")).rstrip("/")
