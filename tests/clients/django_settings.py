"""Settings of Django's tests: one database that is there, and SQLite for what a second one is needed for."""

import os

from django.db.backends.postgresql.base import DatabaseWrapper

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ.get("PGPORT", ""),
        "USER": os.environ["PGUSER"],
        "NAME": os.environ["PGDATABASE"],
        "TEST": {"NAME": os.environ["PGDATABASE"]},
    },
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
# There is no type `inet`.
DatabaseWrapper.data_types = DatabaseWrapper.data_types | {"GenericIPAddressField": "varchar(39)"}
