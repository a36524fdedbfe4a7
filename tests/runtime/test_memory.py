import platform

from repri.runtime.memory import peak_memory, reuse_memory


def test_memory_is_told_in_gigabytes():
    block = bytearray(b"\1") * 300_000_000
    assert 0.3 < peak_memory() < 100
    assert len(block) == 300_000_000


def test_freed_memory_is_kept_where_the_library_can():
    assert reuse_memory() == (platform.libc_ver()[0] == "glibc")
