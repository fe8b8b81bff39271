"""The files of the repository, for tests that look at all of them."""

import pytest

from tests.support.checkout import files, found


@pytest.mark.process
def test_a_copy_without_git_has_the_same_files_to_look_at() -> None:
    patterns = ("README.md", "docs/*.md", "broker_app/*.py", "mom_client", "frontend/src/*.ts")
    assert len(files(*patterns)) > 500
    assert sorted(found(*patterns)) == sorted(files(*patterns))
