"""What all suites share: a class of tests over members, for pytest in two lines or by hand in one.

>>> class Numbers(Suite):
...     members = (1, 2)
...     def test_is_small(self, member):
...         assert member < 3, f"{member} is too large"
>>> Numbers().check(2)
['test_is_small']
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class Suite:
    """Tests that every member of one kind must pass.

    With pytest, in a file of tests: ``class TestMine(LawSuite): members = [MyLaw()]``. By hand:
    ``LawSuite().check(MyLaw())`` raises AssertionError at the first that fails, and returns what was passed.
    """

    members: ClassVar[Sequence[Any]] = ()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run every test once for each member; pytest calls this."""
        if "member" in metafunc.fixturenames:
            members = metafunc.cls.members
            metafunc.parametrize("member", members, ids=[str(member).partition(" at 0x")[0][:60] for member in members])

    def check(self, member: Any) -> list[str]:
        """All tests on one member; the names of those passed."""
        names = [name for name in dir(self) if name.startswith("test_")]
        for name in names:
            getattr(self, name)(member)
        return names


def reads_back(member: Any, registry: Any) -> None:
    """The text of a plug-in makes it again."""
    again = registry.make(str(member))
    assert type(again) is type(member), f"{member} reads back as {again}"
    assert str(again) == str(member), f"{member} reads back as {again}"
    assert registry.make(member.title).title == member.title
