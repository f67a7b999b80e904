"""The suite that SQLAlchemy has for dialects; see `run` beside this file."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
