"""Signals that ask a run to stop."""

import signal

import pytest

from repri.training.signals import stop_signal


def test_sigterm_may_come_twice():
    """A scheduler's SIGTERM may reach a process again through torchrun."""
    before = signal.getsignal(signal.SIGTERM)
    with stop_signal() as stopping:
        assert not stopping()
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert stopping()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_second_ctrl_c_insists():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background may have it ignored
    try:
        with stop_signal() as stopping:
            signal.raise_signal(signal.SIGINT)
            assert stopping()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with stop_signal() as stopping:
            signal.raise_signal(signal.SIGINT)
            assert not stopping()
    finally:
        signal.signal(signal.SIGINT, before)
