import json
import os

import pytest
from attnspec.runtime.cache import Cache, open_cache

from attnspec.errors import CacheError

BLOBS = {"kernel.cubin": b"\x00\x01\x02", "forward.py": b"x = 1\n"}
FACTS = {"registers": 168}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return open_cache()


def test_what_is_stored_is_found_with_its_files_on_the_disk(cache):
    cache.store("key", BLOBS, FACTS)
    entry = cache.find("key")
    assert (entry.blobs, entry.facts) == (BLOBS, FACTS)
    assert (entry.folder / "forward.py").read_bytes() == b"x = 1\n"


def test_a_key_that_was_never_stored_is_not_found(cache):
    assert cache.find("key") is None


@pytest.mark.parametrize("name", ["kernel.cubin", "manifest.json"])
@pytest.mark.parametrize("harm", [lambda text: text[:-1], lambda text: text + b"x", lambda text: b"", lambda text: b"{}"])
def test_a_changed_entry_is_missing_and_is_made_again(cache, name, harm):
    path = cache.store("key", BLOBS, FACTS).folder / name
    path.write_bytes(harm(path.read_bytes()))
    assert cache.find("key") is None
    assert cache.find_or_store("key", lambda: (BLOBS, FACTS)).blobs == BLOBS
    assert cache.find("key") is not None


def test_a_fact_that_was_changed_by_hand_is_noticed(cache):
    path = cache.store("key", BLOBS, FACTS).folder / "manifest.json"
    outer = json.loads(path.read_bytes())
    path.write_text(json.dumps({**outer, "body": outer["body"].replace("168", "255")}))
    assert cache.find("key") is None


def test_a_missing_file_makes_an_entry_missing(cache):
    (cache.store("key", BLOBS, FACTS).folder / "forward.py").unlink()
    assert cache.find("key") is None


def test_the_first_of_two_writers_wins_and_the_second_reads_it(cache):
    cache.store("key", BLOBS, FACTS)
    assert cache.store("key", {"kernel.cubin": b"other"}, {}).blobs == BLOBS


def test_nothing_is_left_behind(cache):
    cache.store("key", BLOBS, FACTS)
    cache.store("key", BLOBS, FACTS)
    assert [path.name for path in cache.folder.iterdir()] == ["key"]


def test_a_failed_write_leaves_nothing(cache):
    with pytest.raises(ValueError, match="not a cache file name"):
        cache.store("key", {"../outside": b""}, {})
    assert list(cache.folder.iterdir()) == []


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b", "", ".hidden", "a\0b"])
def test_a_key_is_never_a_path(cache, name):
    with pytest.raises(ValueError, match="not a cache file name"):
        cache.find(name)


def test_the_folder_and_its_files_are_private(cache):
    entry = cache.store("key", BLOBS, FACTS)
    modes = [path.stat().st_mode & 0o077 for path in (cache.folder, entry.folder, *entry.folder.iterdir())]
    assert modes == [0] * len(modes)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o777)
    with pytest.raises(CacheError, match="others can write to the cache folder"):
        open_cache()


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match="belongs to another user"):
        open_cache()


def test_a_folder_that_cannot_be_made_is_an_error_that_says_what_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTNSPEC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(CacheError, match="set ATTNSPEC_CACHE_DIR"):
        open_cache()


def test_without_the_variable_the_cache_is_in_the_users_own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTNSPEC_CACHE_DIR", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert open_cache() == Cache(tmp_path / "attnspec")
