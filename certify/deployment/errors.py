"""What cannot be asked."""


class DeploymentError(Exception):
    """A deployment that cannot be asked: one line that says what was tried, what came, and what to do."""
