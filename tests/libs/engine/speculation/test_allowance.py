"""The allowance is a credit, a share, and some of what was gained."""

import pytest

from headrace.engine.speculation.allowance import Allowance


def test_losses_use_it_up_and_generated_tokens_fill_it() -> None:
    allowance = Allowance(credit=1.0, share=0.01, max_saved=4.0)
    assert allowance.affords(1.0)
    allowance.gain(-1.5)
    assert allowance.left == -0.5
    assert not allowance.affords(0.0)
    allowance.generate(100)
    assert allowance.left == pytest.approx(0.5)


def test_only_some_of_the_gains_may_be_lost_again() -> None:
    allowance = Allowance(credit=1.0, share=0.01, max_saved=4.0)
    allowance.gain(100.0)
    assert allowance.left == 5.0
