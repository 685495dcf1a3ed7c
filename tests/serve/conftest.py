"""Both kinds of store, for the tests that are about either."""

import pytest
from postgresql_server import postgresql

__all__ = ["fresh", "postgresql"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def fresh(request, tmp_path_factory):
    """Return where a new store can be kept, each time another place: a file, or the address of a database."""
    if request.param == "sqlite":
        return lambda: tmp_path_factory.mktemp("store") / "serve.db"
    return request.getfixturevalue("postgresql").database
