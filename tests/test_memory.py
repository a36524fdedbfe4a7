from repri.memory import peak_memory, reuse_memory


def test_memory_is_told_in_gigabytes():
    block = bytearray(300_000_000)
    assert 0.3 < peak_memory() < 100
    assert len(block) == 300_000_000


def test_asking_twice_does_no_harm():
    assert reuse_memory() == reuse_memory()
