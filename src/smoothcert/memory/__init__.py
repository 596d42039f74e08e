"""Step 7: the memory that makes per-input noise sound: settle, answer; and the memory of a run."""

from __future__ import annotations

from smoothcert.memory.memory import Memory

__all__ = ["Memory"]
