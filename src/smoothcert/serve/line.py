"""Who is next: inputs wait in a line for each client, and clients take turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Waiting = TypeVar("Waiting")


class Full(Exception):
    """There is no room in the line; after how many others it would be one's turn."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"{ahead} inputs wait for votes already; ask again later")
        self.ahead = ahead


class Line(Generic[Waiting]):
    """At most so many wait, at most half of them for one client, so that nobody fills it alone.

    >>> line = Line[str](4)
    >>> for client, what in (("a", "1"), ("a", "2"), ("b", "3")): line.put(client, what)
    >>> line.take(), line.take(), line.take(), line.take()
    ('1', '3', '2', None)
    """

    def __init__(self, most: int) -> None:
        self.most, self.each = most, max(1, most // 2)
        self._clients: OrderedDict[str, deque[Waiting]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._clients.values()))

    def put(self, client: str, what: Waiting) -> None:
        """Stand in line; Full if there is no room."""
        own = self._clients.get(client, ())
        if len(self) >= self.most or len(own) >= self.each:
            raise Full(len(self))
        self._clients.setdefault(client, deque()).append(what)

    def take(self) -> Waiting | None:
        """The first of the client whose turn it is; None if nobody waits."""
        if not self._clients:
            return None
        client, own = self._clients.popitem(last=False)
        first = own.popleft()
        if own:
            self._clients[client] = own  # behind the others
        return first

    def leave(self, what: Waiting) -> None:
        """Leave the line, if in it."""
        for client, own in list(self._clients.items()):
            if what in own:
                own.remove(what)
                if not own:
                    del self._clients[client]
