"""The findings of attacks, in a table of their own beside the run's records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from smoothcert.errors import RunError
from smoothcert.findings import Finding
from smoothcert.store import RESULTS, SqliteStore

TABLE = """
CREATE TABLE IF NOT EXISTS findings (effort TEXT NOT NULL, times REAL NOT NULL, idx INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (effort, times, idx));
"""


class AttackedRun(SqliteStore):
    """A run's store with findings: one per effort (how hard was tried, in words), multiple of the radius, and input.

    A finding is kept once it would survive a crash; a later one of the same takes its place.
    """

    def __init__(self, directory: Path | str) -> None:
        path = Path(directory) / RESULTS
        if not path.is_file():
            raise RunError(f"{directory} is not a run: there is no {RESULTS} in it; give one that certify wrote")
        super().__init__(path)
        with self._explained():
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(TABLE)

    def keep(self, effort: str, finding: Finding) -> None:
        """Keep one finding."""
        body = finding.to_json(self.put(finding.offset))
        with self._explained():
            row = (effort, finding.times, finding.index, body)
            self._db.execute("INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?)", row)

    def findings(self, effort: str) -> Iterator[Finding]:
        """What such an effort has found, by multiple and index."""
        with self._explained():
            rows = self._db.execute(
                "SELECT body FROM findings WHERE effort = ? ORDER BY times, idx", (effort,)
            ).fetchall()
        for (body,) in rows:
            yield Finding.from_json(body, self.get)
