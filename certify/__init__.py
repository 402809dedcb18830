"""Certification of live LLM-serving deployments."""

__version__ = "0.1.0"
