"""These tests need two interpreters, which ci/ecosystem names; without them none is collected."""

import os

if not os.environ.get("ECOSYSTEM_PYTHON"):
    collect_ignore_glob = ["test_*.py"]
collect_ignore = ["programs"]
