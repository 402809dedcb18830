pytest_plugins = ["certify.plugin"]
