"""Numbers that are printed never exceed those that are proved."""

from hypothesis import given
from hypothesis import strategies as st

from smoothcert.maths.geometry import round_down


class TestRounding:
    @given(value=st.floats(0, 1e6), digits=st.integers(0, 6))
    def test_printed_numbers_never_exceed_the_proved_ones(self, value: float, digits: int) -> None:
        text = round_down(value, digits)
        assert float(text) <= value
        assert value - float(text) <= 10.0**-digits * (1 + 1e-9)
