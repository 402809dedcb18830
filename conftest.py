"""Loads the plug-in: options and hooks live in certify/plugin.py alone."""

pytest_plugins = ["certify.plugin"]
