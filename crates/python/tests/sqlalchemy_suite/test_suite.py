"""All tests of SQLAlchemy's suite for dialects."""

from sqlalchemy.testing.suite import *  # noqa: F403
